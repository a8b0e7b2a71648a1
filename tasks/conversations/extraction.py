"""Extraction: what an agent's new turns tell becomes memories, experiences and signals for the profile."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from engine.conversations.stored.memories import Source, worth_keeping
from engine.conversations.stored.windows import EXTRACT_MAX_MESSAGES
from engine.providers import llms
from engine.providers.llms.prompts import signature
from engine.providers.llms.questions import Extraction
from engine.providers.llms.rules import Rules
from jiyi.errors import LLMUnavailable, ProviderUnavailable
from jiyi.protocol.conversations.types import CombinedExtraction
from jiyi.settings import get_settings
from jiyi.text.words import language_of
from models.conversations import extractions, keeping, windows
from models.conversations.extractions import StoredFact, StoredTurn
from models.conversations.keeping import Extracted
from models.conversations.windows import EXTRACT
from models.db.connection import unit_of_work
from models.memory.agents import agents
from models.memory.agents.agents import AgentName
from models.queue import news
from models.queue.wakeups import wake
from tasks.framework.lease import LeaseRenewingLLM
from tasks.framework.work import Batch, work_task

log = logging.getLogger(__name__)

#: Seconds. The claim is extended before questions: some sessions, one question each.
EXTRACTION_TIME_LIMIT = 600


@dataclass(frozen=True, slots=True)
class _Look:
    """What one run looks at."""

    name: AgentName
    seen: int
    turns: list[StoredTurn]
    context: dict[str, list[StoredTurn]]
    known: list[StoredFact]
    injected: list[str]


@work_task(EXTRACT, queue="reflection", batch=1, time_limit=EXTRACTION_TIME_LIMIT)
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
        found = [_asked(batch, look, session_id, turns) for session_id, turns in extractions.sessions_of(look.turns).items()]
        with batch.finish() as (connection, owed):
            if not owed:
                return
            stored = keeping.keep(connection, look.name, look.seen, look.turns, found, datetime.now(UTC))
            again = windows.due_again(connection, look.name)
            if again is not None:
                batch.later[agent_key] = again
        news.stored(stored)
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
            session_id: extractions.context_of(connection, name, session_id, some[0].node_count)
            for session_id, some in extractions.sessions_of(turns).items()
        }
        said = [turn.node_id for turn in turns if turn.message.role == "user"]
        known = extractions.known_facts(connection, name, said)
        return _Look(name, seen, turns, context, known, extractions.injected_lately(connection, name))


def _asked(batch: Batch, look: _Look, session_id: str, turns: list[StoredTurn]) -> Extracted:
    before = look.context[session_id]
    messages = [turn.message for turn in (*before, *turns)]
    group_id, agent_id = look.name
    question = Extraction(
        agent_id=agent_id,
        group_id=group_id,
        language=language_of("\n".join(turn.message.text for turn in turns)),
        messages=messages,
        since=len(before),
        known=[one.fact for one in look.known],
    )
    found, llm, fallback = _answer(batch, question)
    turn_ids = [turn.node_id for turn in (*before, *turns)]
    source = Source(group_id, agent_id, session_id, messages, turn_ids, llm, signature(question, question.language), fallback)
    return Extracted(source, worth_keeping(found, look.injected), [one.node_id for one in look.known])


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
