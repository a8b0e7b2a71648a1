"""What conversations tell: an agent's new turns are looked through for memories, and memories are summarised."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from engine.conversations.memories import Source, of_user, worth_keeping
from engine.conversations.standing import own, standing
from engine.heads.local import heads
from engine.providers import llms
from engine.providers.llm_prompts import signature
from engine.providers.questions import Extraction, Summarised, Summary
from engine.rules.provider import SUMMARY_SENTENCES, Rules
from jiyi.errors import BadReply, LLMUnavailable, ProviderUnavailable
from jiyi.protocol.conversations import CombinedExtraction
from jiyi.settings import get_settings
from jiyi.text.budget import cut_to_tokens
from jiyi.text.splitting import sentences
from jiyi.text.words import language_of
from models.conversations import entries, extraction_schedule, extractions
from models.conversations.extraction_schedule import EXTRACT, EXTRACT_MAX_MESSAGES
from models.conversations.extractions import Extracted, Session, StoredFact, StoredTurn
from models.db.connection import unit_of_work
from models.memory import agents
from models.memory.agents import AgentName
from models.memory.inbox import announce
from models.memory.work import SUMMARIZE
from models.queue.wakeups import wake
from tasks.framework.work import Batch, LeaseRenewingLLM, work_task

log = logging.getLogger(__name__)

#: Seconds. The claim is extended before questions: some sessions, one question each.
EXTRACTION_TIME_LIMIT = 600
#: Less important memories, 1 to 10, are dropped. The rules give 3 at least, so only what an LLM judges lower falls away.
LEAST_IMPORTANCE = 3.0


@dataclass(frozen=True, slots=True)
class _Look:
    """What one run looks at."""

    name: AgentName
    seen: int
    turns: list[StoredTurn]
    context: dict[Session, list[StoredTurn]]
    #: What is known of each of the users, and was put before the agent's latest answers to them.
    known: dict[str | None, list[StoredFact]]
    #: What each of the users said before.
    earlier: dict[str | None, list[StoredTurn]]
    injected: dict[str | None, list[str]]


@work_task(EXTRACT, batch=1, time_limit=EXTRACTION_TIME_LIMIT)
def extract(batch: Batch) -> None:
    """Look through an agent's new turns, one question a session, and store what they tell.

    The LLM is asked outside of any transaction. Safe to repeat because the memories, the cursor and the receipt are one
    transaction, which only the run that finds the cursor where it saw it gets to write: a failed run moves nothing.
    """
    for agent_key in batch.subject_ids:
        look = _look(agent_key)
        if look is None:
            with batch.finish():
                continue
        sessions = extractions.sessions_of(extractions.said(look.turns))
        extracted = []
        for session, turns in sessions.items():
            extracted.append(_asked(batch, look, session, turns))
            look.earlier[session[1]].extend(turns)
        with batch.finish() as (connection, owed):
            if not owed:
                return
            stored = extractions.store_extracted(connection, look.name, look.seen, look.turns, extracted, datetime.now(UTC))
            again = extraction_schedule.due_again(connection, look.name)
            if again is not None:
                batch.later[agent_key] = again
        announce(stored)
        wake(*stored.owed)


def _look(agent_key: UUID) -> _Look | None:
    """None for an agent that was erased meanwhile."""
    with unit_of_work() as connection:
        name = agents.name_of(connection, agent_key)
        if name is None:
            return None
        seen = extractions.cursor(connection, name)
        turns = extractions.new_turns(connection, name, seen, EXTRACT_MAX_MESSAGES)
        context = {
            session: extractions.context_of(connection, name, session, of_session[0].node_count)
            for session, of_session in extractions.sessions_of(turns).items()
        }
        users = {turn.user_id for turn in turns}
        known = {
            user: extractions.known_facts(connection, name, [turn.node_id for turn in turns if _says(turn, user)], user) for user in users
        }
        earlier = {
            user: extractions.earlier_turns(connection, name, [turn for turn in turns if turn.user_id == user], user) for user in users
        }
        injected = {user: extractions.injected_lately(connection, name, user) for user in users}
        return _Look(name, seen, turns, context, known, earlier, injected)


def _says(turn: StoredTurn, user: str | None) -> bool:
    return turn.message.role == "user" and turn.user_id == user


def _asked(batch: Batch, look: _Look, session: Session, turns: list[StoredTurn]) -> Extracted:
    before, known, (session_id, user_id) = extractions.said(look.context[session]), look.known[session[1]], session
    messages = [turn.message for turn in (*before, *turns)]
    group_id, agent_id = look.name
    question = Extraction(
        agent_id=agent_id,
        group_id=group_id,
        language=language_of("\n".join(turn.message.text for turn in turns)),
        messages=messages,
        since=len(before),
        known=[fact.fact for fact in known],
    )
    said = [turn.said() for turn in (*before, *turns)]
    changes = standing(said, len(before), [turn.said() for turn in look.earlier[user_id]], heads())
    question = question.model_copy(update={"messages": [own(turn, changes.marks[turn.node_id]) for turn in said]})
    extraction, llm, fallback = _answer(batch, question)
    turn_ids = [turn.node_id for turn in (*before, *turns)]
    source = Source(group_id, agent_id, session_id, messages, turn_ids, llm, signature(question, question.language), fallback, user_id)
    kept = worth_keeping(of_user(extraction, messages), look.injected[user_id], LEAST_IMPORTANCE)
    return Extracted(source, kept, [fact.node_id for fact in known], changes)


def _answer(batch: Batch, question: Extraction) -> tuple[CombinedExtraction, str, bool]:
    """The answer, whose it is, and whether the rules stood in for an LLM that is away."""
    try:
        llm = LeaseRenewingLLM(llms.llm(), batch)
        return llm.ask(question), llm.model, False
    except (LLMUnavailable, ProviderUnavailable) as error:
        if get_settings().extract_fallback != "rules":
            raise
        log.warning("the LLM is away (%s): extracted by rules", error)
        return Rules().ask(question), Rules.model, True


#: Memories of one run.
SUMMARIES_AT_ONCE = 20
#: Seconds. The claim is extended before questions.
SUMMARY_TIME_LIMIT = 600
#: Tokens of an overview, and of an abstract, at most.
OVERVIEW_TOKENS, ABSTRACT_TOKENS = 200, 100


@work_task(SUMMARIZE, batch=SUMMARIES_AT_ONCE, time_limit=SUMMARY_TIME_LIMIT)
def summarize(batch: Batch) -> None:
    """Make overview and abstract of memories that have none.

    A text of one or two sentences is its own overview: no LLM is asked. A reply that is no answer leaves both empty. Safe
    to repeat because what is written depends on the memory alone, and is written with the receipt.
    """
    with unit_of_work() as connection:
        rows = entries.to_summarise(connection, batch.subject_ids)
    llm = LeaseRenewingLLM(llms.llm(), batch)
    summaries = {row.node_id: _summarised(llm, row.group_id, row.agent_id, row.description) for row in rows}
    with batch.finish() as (connection, owed):
        for node_id in owed:
            if (summary := summaries.get(node_id)) is not None:
                entries.save_summary(connection, node_id, *_limited_summary(summary))


def _summarised(llm: llms.LLM, group_id: str, agent_id: str, text: str) -> Summarised | None:
    question = Summary(agent_id=agent_id, group_id=group_id, language=language_of(text), text=text)
    if len(sentences(text)) <= SUMMARY_SENTENCES:
        return Rules().ask(question)
    try:
        return llm.ask(question)
    except BadReply as error:
        log.warning("a memory is left without its summary: %s", error)
        return None


def _limited_summary(summary: Summarised) -> tuple[str, str]:
    return cut_to_tokens(summary.overview, OVERVIEW_TOKENS), cut_to_tokens(", ".join(summary.keywords), ABSTRACT_TOKENS)
