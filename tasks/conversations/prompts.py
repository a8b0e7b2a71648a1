"""What an LLM would be asked about a session, shown and not asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.conversations.notes import Experiences, Notes
from engine.conversations.pieces import in_chunks, in_pieces
from engine.providers.llm_prompts import data_tokens, messages, signature
from engine.providers.questions import (
    Compaction,
    Keywords,
    KnownFact,
    Memo,
    Planning,
    Poignancy,
    Question,
    Summary,
    Triple,
)
from jiyi.errors import NotFound
from jiyi.protocol.base import Rows
from jiyi.protocol.conversation_commands import PromptName, ShownPrompt, ShowPrompts
from jiyi.protocol.conversations import ChatMessage, Message
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import language_of
from models.conversations import actions, extractions
from models.conversations.extraction_schedule import EXTRACT_MAX_MESSAGES
from models.db.actions import Actor
from models.db.connection import unit_of_work
from tasks.conversations.asking import learned
from tasks.framework.rpc import implements

#: Number of a turn that is later than any.
LAST = 2**31 - 1

_Build = Callable[[Sequence[Message], Sequence[KnownFact], Mapping[str, Any]], list[Question[Any]]]


@implements(actions.show_prompts)
def show_prompts(actor: Actor, request: ShowPrompts) -> Rows[ShownPrompt]:
    """Safe to repeat because it stores nothing, and asks nobody."""
    name, session = (actor.group_id, request.agent_id), (request.session_id, request.user_id)
    with unit_of_work() as connection:
        context = extractions.context_of(connection, name, session, LAST, EXTRACT_MAX_MESSAGES)
        turns = extractions.said(context)
        known_facts = extractions.known_facts(
            connection, name, [turn.node_id for turn in turns], request.user_id
        )
    if not turns:
        why = f"the agent {request.agent_id!r} has no turns of the session {request.session_id!r}"
        raise NotFound(f"session_id: {why}")
    conversation = [turn.message for turn in turns]
    language = language_of("\n".join(one.text for one in conversation))
    about = {"agent_id": request.agent_id, "group_id": actor.group_id, "language": language}
    questions = _QUESTIONS[request.name](conversation, [fact.fact for fact in known_facts], about)
    return Rows(rows=[_shown(question) for question in questions])


def _shown(question: Question[Any]) -> ShownPrompt:
    sent = [ChatMessage(**message) for message in messages(question)]
    tokens = sum(estimate_tokens(message.content or "") for message in sent)
    return ShownPrompt(
        prompt=signature(question, question.language),
        tokens=tokens,
        messages=sent,
        answer=question.answer.model_json_schema(),
    )


def _notes(
    conversation: Sequence[Message], known_facts: Sequence[KnownFact], about: Mapping[str, Any]
) -> list[Question[Any]]:
    fact_numbers, fact_tokens = learned.choose_facts(known_facts, conversation)
    shown_facts = [known_facts[number] for number in fact_numbers]
    pieces = in_pieces(conversation, 0, learned.room(fact_tokens))
    return [Notes(**about, messages=one.messages, since=one.since, known=shown_facts) for one in pieces]


def _experiences(
    conversation: Sequence[Message], _known_facts: Sequence[KnownFact], about: Mapping[str, Any]
) -> list[Question[Any]]:
    pieces = in_pieces(conversation, 0, learned.room())
    return [Experiences(**about, messages=one.messages, since=one.since) for one in pieces]


def _compaction(
    conversation: Sequence[Message], _known_facts: Sequence[KnownFact], about: Mapping[str, Any]
) -> list[Question[Any]]:
    chunks = in_chunks([(message.role, message.text) for message in conversation], data_tokens())
    return [Compaction(**about, utterances=chunk) for chunk in chunks]


def _of_conversation(question: type[Planning | Memo]) -> _Build:
    return lambda conversation, _known_facts, about: [
        question(**about, utterances=[(one.name or one.role, one.text) for one in conversation])
    ]


def _of_last(question: type[Summary | Poignancy | Triple | Keywords]) -> _Build:
    return lambda conversation, _known_facts, about: [question(**about, text=conversation[-1].text)]


_QUESTIONS: dict[PromptName, _Build] = {
    "extraction": _notes,
    "experiences": _experiences,
    "compaction": _compaction,
    "planning": _of_conversation(Planning),
    "memo": _of_conversation(Memo),
    "summary": _of_last(Summary),
    "poignancy": _of_last(Poignancy),
    "triple": _of_last(Triple),
    "keywords": _of_last(Keywords),
}
