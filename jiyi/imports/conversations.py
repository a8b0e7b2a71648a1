"""Conversations of ChatGPT, Claude (``conversations.json``) and Open WebUI: turns, each one a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from jiyi.imports.drafts import (
    Draft,
    Drafts,
    LeftOut,
    beginning_of,
    dated,
    listing,
    mapping,
    role_of,
    text_of,
    text_or_none,
)
from jiyi.protocol.base import JsonMapping, JsonObject

#: Characters of a conversation's title that are kept.
MAX_TITLE_CHARS = 200


def chatgpt(conversation: Any) -> Drafts:
    """One conversation of ChatGPT's: of a tree (``mapping``) the branch that ends with ``current_node``."""
    nodes = mapping(mapping(conversation).get("mapping"))
    ids = (mapping(conversation).get("conversation_id"), mapping(conversation).get("id"))
    name = next(filter(None, map(text_or_none, ids)), None)
    if name is None or not nodes:
        yield LeftOut(name or "a conversation", "malformed", "a conversation needs an id and a mapping")
        return
    path = _branch(
        nodes,
        conversation.get("current_node"),
        "parent",
        lambda node: mapping(node.get("message")).get("create_time"),
    )
    at, about = _beginning(conversation, "create_time", "title")

    def draft_of(node: str) -> Draft | LeftOut | None:
        message = mapping(mapping(nodes[node]).get("message"))
        key = (name, text_or_none(message.get("id")) or node)
        content = mapping(message.get("content"))
        if not message or not content:
            return None  # the root of a tree
        hidden = mapping(message.get("metadata")).get("is_visually_hidden_from_conversation")
        text = "" if hidden else _chatgpt_text(content)
        if text is None:
            return LeftOut(" ".join(key), "no text", f"content of the type {content.get('content_type')}")
        role = mapping(message.get("author")).get("role")
        return turn(key, role, text, message.get("create_time"), began=at, about=about)

    yield from _of_tree(name, nodes, path, draft_of)


def _of_tree(
    name: str,
    nodes: Mapping[str, Any],
    path: Sequence[str],
    draft_of: Callable[[str], Draft | LeftOut | None],
) -> Drafts:
    """What is said in the branch that is shown, and what is left out of it since it is of another."""
    yield from filter(None, map(draft_of, path))
    visible = set(path)
    for node in nodes:
        if node not in visible and (other := draft_of(node)) is not None:
            draft = other if isinstance(other, Draft) else None
            yield LeftOut(f"{name} {node}", "other branch", "not of the branch that is shown", draft)


def _branch(
    nodes: Mapping[str, Any], current: Any, parent: str, time: Callable[[Mapping[str, Any]], Any]
) -> list[str]:
    """The nodes from the root to the current one, each once; if that is not known, to the latest."""

    def written(numbered: tuple[int, str]) -> tuple[float, int]:
        at = beginning_of(time(mapping(nodes[numbered[1]])))
        return at.timestamp() if at else 0.0, numbered[0]

    node = current
    if not isinstance(node, str) or node not in nodes:
        parents = {above for value in nodes.values() if isinstance(above := mapping(value).get(parent), str)}
        node = max(enumerate([name for name in nodes if name not in parents] or nodes), key=written)[1]
    path: dict[str, None] = {}
    while isinstance(node, str) and node in nodes and node not in path:
        path[node] = None
        node = mapping(nodes[node]).get(parent)
    return list(reversed(path))


def _chatgpt_text(content: Mapping[str, Any]) -> str | None:
    """What a message says; None: nothing in words."""
    kind = content.get("content_type", "text")
    if kind == "code":
        return text_or_none(content.get("text")) or ""
    if kind not in ("text", "multimodal_text"):
        return None
    words = []
    for part in listing(content.get("parts")):
        if isinstance(part, str):
            words.append(part)
        elif isinstance(transcript := mapping(part).get("text"), str):  # a transcript
            words.append(transcript)
    return "\n".join(word for word in words if word.strip())


def claude(conversation: Any) -> Drafts:
    """One conversation of Claude's: ``chat_messages`` in their order."""
    name = text_or_none(mapping(conversation).get("uuid"))
    messages = mapping(conversation).get("chat_messages")
    if name is None or not isinstance(messages, list):
        yield LeftOut(name or "a conversation", "malformed", "a conversation needs a uuid and chat_messages")
        return
    at, about = _beginning(conversation, "created_at", "name")
    for number, value in enumerate(messages):
        message = mapping(value)
        key = (name, text_or_none(message.get("uuid")) or f"message {number}")
        blocks = [mapping(block) for block in listing(message.get("content"))]
        text = text_of(message.get("content")) or message.get("text") or ""
        attachments = [mapping(attachment) for attachment in listing(message.get("attachments"))]
        if not isinstance(text, str):
            yield LeftOut(" ".join(key), "malformed", "its text is no text")
        elif not text.strip() and any(block.get("type") != "text" for block in blocks):
            yield LeftOut(" ".join(key), "no text", "only calls of tools, or what is not written")
        elif text.strip() or not attachments:
            yield turn(key, message.get("sender"), text, message.get("created_at"), began=at, about=about)
        for place, attachment in enumerate(attachments):
            yield _claude_attachment((*key, f"attachment {place}"), message, attachment, at, about)


def _claude_attachment(
    key: tuple[str, ...],
    message: Mapping[str, Any],
    attachment: Mapping[str, Any],
    began: datetime | None,
    about: JsonObject,
) -> Draft | LeftOut:
    """A long text that was pasted was said as well; a file's is a document that was handed over."""
    file, text = str(attachment.get("file_name") or ""), attachment.get("extracted_content")
    if not isinstance(text, str) or not text.strip():
        where = f"{' '.join(key[:2])} {file}"
        return LeftOut(where, "no text", "an attachment whose text is not in the export")
    draft = turn(key, message.get("sender"), text, message.get("created_at"), began=began, about=about)
    if isinstance(draft, LeftOut) or not file or file.startswith("paste"):
        return draft
    return replace(draft, origin="document", provenance={**about, "file": file[:MAX_TITLE_CHARS]})


def open_webui(value: Any) -> Drafts:
    """One chat of Open WebUI's: of a tree (``history``) the branch that ends with ``currentId``."""
    row = mapping(value)
    chat = mapping(row.get("chat"))
    history = mapping(chat.get("history"))
    nodes = mapping(history.get("messages"))
    name = text_or_none(row.get("id")) or text_or_none(chat.get("id"))
    if name is None or "history" not in chat:
        yield LeftOut(name or "a chat", "malformed", "a chat needs an id, and chat with its history")
        return
    if not nodes:
        return  # a chat in which nothing was said
    path = _branch(nodes, history.get("currentId"), "parentId", lambda node: node.get("timestamp"))
    at, about = _beginning(
        {"at": row.get("created_at") or chat.get("timestamp"), "title": row.get("title")}, "at", "title"
    )
    user = text_or_none(row.get("user_id"))

    def draft_of(node: str) -> Draft | LeftOut:
        message = mapping(nodes[node])
        key, text = (name, text_or_none(message.get("id")) or node), text_of(message.get("content"))
        when: dict[str, Any] = {"at": message.get("timestamp"), "began": at}
        return turn(key, message.get("role"), text, **when, about=about, user=user)

    yield from _of_tree(name, nodes, path, draft_of)


def _beginning(conversation: Mapping[str, Any], time: str, title: str) -> tuple[datetime | None, JsonObject]:
    """When it began, and what it is called."""
    name = text_or_none(conversation.get(title))
    return beginning_of(conversation.get(time)), {"title": name[:MAX_TITLE_CHARS]} if name else {}


def turn(
    key: tuple[str, ...],
    role: Any,
    text: str,
    at: Any,
    *,
    session: str | None = None,
    began: datetime | None = None,
    about: JsonMapping | None = None,
    agent: str | None = None,
    user: str | None = None,
) -> Draft | LeftOut:
    """A message as a turn of a session (``key[0]`` unless given), at its own or the conversation's time."""
    where = " ".join(key)
    if not text.strip():
        return LeftOut(where, "empty")
    if (speaker_role := role_of(role)) is None:
        return LeftOut(where, "unknown role", str(role)[:40])
    whose = {"agent": agent, "user": user, "session": session or key[0]}
    draft = dated(key, text, at, role=speaker_role, provenance=dict(about or {}), **whose)
    if isinstance(draft, Draft) and draft.at is None:
        return replace(draft, at=began)
    return draft
