"""How values look in the templates, and characters that change the direction of what follows.

Such characters are shown for what they are: in a name they make one thing look like another. U+202E lets ``Maria<U+202E>nimda`` read as
``Mariaadmin``. Texts in Hebrew, Arabic and the like need none of these; elements with ``dir="auto"`` keep their direction to themselves.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from flask import Flask, Response
from flask_babel import gettext as _
from flask_babel import lazy_gettext

from jiyi.text import translatable
from jiyi.text.translatable import Translatable
from jiyi.text.words import CJK


def translated(text: str) -> str:
    """What the service says in English in the page's language, if it says it for people."""
    if not isinstance(text, Translatable):
        return text
    values = {name: translated(value) if isinstance(value, str) else value for name, value in text.values.items()}
    return str(_(text.pattern, **values))


def age(seconds: float | None) -> str:
    return translated(translatable.age(seconds))


def ago(then: datetime | None) -> str:
    return "–" if then is None else _("%(age)s ago", age=age(seconds_since(then)))


def since(then: datetime) -> str:
    return age(seconds_since(then))


def until(then: datetime) -> str:
    seconds = (then - datetime.now(UTC)).total_seconds()
    return str(_("in %(age)s", age=age(seconds)) if seconds > 0 else _("due"))


def duration(seconds: float | None) -> str:
    """Short times too: ``4 ms``, ``1.2 s``, ``5 min``."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return str(_("%(count)s ms", count=number(round(seconds * 1_000))))
    return str(_("%(count)s s", count=number(round(seconds, 1)))) if seconds < 60 else age(seconds)


def seconds_since(then: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - then).total_seconds())


def moment(then: datetime | None) -> str:
    return "–" if then is None else then.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


#: Characters of each version that are compared: the time that it takes grows with their square.
COMPARED_CHARS = 2_000
_WORD = re.compile(rf"[{CJK}]|\w+|\s+|.", re.DOTALL)
#: A text in pieces, each with whether the other version has it not.
Pieces = list[tuple[str, bool]]


def compare(older: str, newer: str) -> tuple[Pieces, Pieces]:
    """Two versions word by word, Chinese character by character, with what each has of its own."""
    old, new = (_WORD.findall(text[:COMPARED_CHARS]) for text in (older, newer))
    shown: tuple[Pieces, Pieces] = ([], [])
    for what, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for pieces, words in zip(shown, (old[start:end], new[new_start:new_end]), strict=True):
            if words:
                pieces.append(("".join(words), what != "equal"))
    return shown


def pretty_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def readable_body(body: str | None) -> str:
    """A refused message as it came; indented if it is JSON (whole, not cut)."""
    try:
        return pretty_json(json.loads(body or ""))
    except (ValueError, RecursionError):
        return body or ""


def summary(value: Mapping[str, Any]) -> str:
    """What a job did, without what it found none of."""
    parts = (f"{name.replace('_', ' ')}: {_plain(item)}" for name, item in value.items() if item)
    return ", ".join(parts) or _("nothing to do")


def _plain(item: Any) -> str:
    if isinstance(item, list):
        return str(len(item))
    return ", ".join(f"{name} {count}" for name, count in item.items()) if isinstance(item, Mapping) else str(item)


#: What the service calls in one word, for people.
_WORDS = {
    "event": lazy_gettext("event"),
    "thought": lazy_gettext("thought"),
    "chat": lazy_gettext("chat"),
    "operator": lazy_gettext("operator"),
    "admin": lazy_gettext("admin"),
    "viewer": lazy_gettext("viewer"),
    "publish": lazy_gettext("publish"),
    "read": lazy_gettext("read"),
    "open": lazy_gettext("open"),
    "replayed": lazy_gettext("replayed"),
    "discarded": lazy_gettext("discarded"),
    "alive": lazy_gettext("valid"),
    "expired": lazy_gettext("expired"),
    "revoked": lazy_gettext("revoked"),
    "ok": lazy_gettext("ok"),
    "unknown": lazy_gettext("unknown"),
    "attention": lazy_gettext("attention"),
    "unreachable": lazy_gettext("unreachable"),
    "running": lazy_gettext("running"),
    "done": lazy_gettext("done"),
    "failed": lazy_gettext("failed"),
    "owed": lazy_gettext("owed"),
    "incomplete": lazy_gettext("incomplete"),
    "agent": lazy_gettext("agent"),
    "person": lazy_gettext("person"),
    "nodes": lazy_gettext("memories"),
    "waiting": lazy_gettext("waiting"),
    "paused": lazy_gettext("paused"),
    "draining": lazy_gettext("draining"),
    "stopped": lazy_gettext("stopped"),
    "dry run": lazy_gettext("dry run"),
    "turn.recorded": lazy_gettext("turn"),
    "turn.step": lazy_gettext("step"),
    "session.ended": lazy_gettext("ended"),
    "node.executed": lazy_gettext("node"),
    "agent.configured": lazy_gettext("settings"),
    "feedback.given": lazy_gettext("vote"),
    "proposed": lazy_gettext("proposed"),
    "refused": lazy_gettext("refused by the gate"),
    "registered": lazy_gettext("registered"),
    "returned": lazy_gettext("came back"),
    "accepted": lazy_gettext("confirmed"),
    "declined": lazy_gettext("declined"),
    "enabled": lazy_gettext("enabled"),
    "disabled": lazy_gettext("disabled"),
    "archived": lazy_gettext("archived"),
    "deleted": lazy_gettext("deleted"),
    "feedback_given": lazy_gettext("a vote was given"),
    "feedback_ignored": lazy_gettext("a vote did not count"),
    "recommended": lazy_gettext("recommended"),
    "explicit": lazy_gettext("said so"),
    "implicit_usage": lazy_gettext("was used"),
    "usage_count": lazy_gettext("was used often"),
    "completion_rate": lazy_gettext("was completed"),
    "silent": lazy_gettext("never"),
    "light": lazy_gettext("only when urgent"),
    "standard": lazy_gettext("when it matters"),
    "autonomous": lazy_gettext("whenever there is something"),
    "ui": lazy_gettext("in the program"),
    "desktop": lazy_gettext("on the desktop"),
    "all": lazy_gettext("everywhere"),
    "tasks": lazy_gettext("reminders"),
    "memory": lazy_gettext("memory"),
    "pain": lazy_gettext("pain points"),
    "corrections": lazy_gettext("corrections"),
    "idle": lazy_gettext("silence"),
    "cron": lazy_gettext("again and again"),
    "once": lazy_gettext("once"),
    "interval": lazy_gettext("every"),
    "reminder": lazy_gettext("a reminder"),
    "workflow": lazy_gettext("a workflow"),
    "concise": lazy_gettext("concise"),
    "detailed": lazy_gettext("detailed"),
    "formal": lazy_gettext("formal"),
    "casual": lazy_gettext("casual"),
    "ready": lazy_gettext("ready"),
    "indexed": lazy_gettext("indexed"),
    "pending": lazy_gettext("waiting"),
}


#: Of memories; ``memory`` is what was not taken from conversations.
_KINDS: dict[str, Any] = {
    "memory": lazy_gettext("observation"),
    "preference": lazy_gettext("preference"),
    "knowledge": lazy_gettext("knowledge"),
    "experience": lazy_gettext("experience"),
    "session": lazy_gettext("turn"),
}


#: What a question asks for, beside a kind of memory.
_INTENTS: dict[str, Any] = {
    **_KINDS,
    "code": lazy_gettext("code"),
    "identity_recall": lazy_gettext("who the user is"),
    "general": lazy_gettext("nothing in particular"),
}


_ORIGINS: dict[str, Any] = {
    "operator": lazy_gettext("an operator"),
    "user": lazy_gettext("the user"),
    "rules": lazy_gettext("the service's rules"),
    "model": lazy_gettext("a language model"),
    "import": lazy_gettext("an import"),
    "assistant": lazy_gettext("the assistant"),
    "document": lazy_gettext("a document"),
    "tool": lazy_gettext("a tool"),
}


def word(name: str) -> str:
    return str(_WORDS.get(name, name))


def intent(name: str) -> str:
    """What a question asks for, or the kind of a memory, in the page's language."""
    return str(_INTENTS.get(name, name))


#: Parts of why a memory is in a prompt, as ``engine.conversations.injection`` writes them.
_PLACE = re.compile(r"(?P<in_words>in the words of )?place (?P<place>\d+)")
_WHY: dict[str, Any] = {
    "within the floor of its kind": lazy_gettext("within the share of its kind"),
    "shortened": lazy_gettext("shortened"),
}


def why_injected(why: str) -> str:
    """Why a memory is in a prompt, in the page's language."""
    return ", ".join(_why_part(part) for part in why.split(", "))


def _why_part(part: str) -> str:
    found = _PLACE.fullmatch(part)
    if found is None:
        return str(_WHY.get(part, part))
    place = found["place"]
    return str(_("in the words of place %(place)s", place=place) if found["in_words"] else _("place %(place)s", place=place))


def person(actor: str) -> str:
    """``user:mia`` → ``mia``."""
    return actor.removeprefix("user:")


def register(app: Flask) -> None:
    app.after_request(_show_controls)
    app.jinja_env.filters.update(
        age=age,
        ago=ago,
        moment=moment,
        number=number,
        pretty_json=pretty_json,
        readable_body=readable_body,
        compared_with=compare,
        since=since,
        until=until,
        duration=duration,
        summary=summary,
        translated=translated,
        person=person,
        word=word,
        node_type=word,
        memory_kind=lambda kind: str(_KINDS[kind]),
        memory_origin=lambda origin: str(_ORIGINS[origin]),
        intent=intent,
        why_injected=why_injected,
        role=word,
    )


#: Embeddings, overrides and isolates, with their ends.
CONTROLS = "\u202a-\u202e\u2066-\u2069"
#: As bytes of UTF-8 that all of them begin with: most pages have none, and are not looked at closer.
_MAY_HAVE = (b"\xe2\x80", b"\xe2\x81")
_CONTROL = re.compile(f"[{CONTROLS}]")
#: What stands between tags. Attributes (values of forms, addresses) and text fields stay as they are: they are sent back.
_SHOWN = re.compile(r"</?textarea\b|(?<=>)[^<>]++")


def show_controls(html: str) -> str:
    r"""The page with such characters as ``\u202e`` wherever they would be seen."""
    in_field = False

    def escaped(found: re.Match[str]) -> str:
        nonlocal in_field
        if found[0].startswith("<"):
            in_field = not found[0].startswith("</")
            return found[0]
        return found[0] if in_field else _CONTROL.sub(_escaped, found[0])

    return _SHOWN.sub(escaped, html)


def _escaped(control: re.Match[str]) -> str:
    return f"\\u{ord(control[0]):04x}"


def _show_controls(response: Response) -> Response:
    if response.mimetype == "text/html" and not response.is_streamed:
        data = response.get_data()
        if any(prefix in data for prefix in _MAY_HAVE):
            page = data.decode()
            if _CONTROL.search(page):
                response.set_data(show_controls(page))
    return response
