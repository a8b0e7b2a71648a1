"""Pain points: what new turns tell is merged, what hurts for sure gets a proposal, what helped becomes an experience."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection

from engine.conversations.stored.windows import EXTRACT_MAX_MESSAGES
from engine.growth.pains.confirming import confirmed
from engine.growth.pains.solving import advice_in
from engine.providers import llms
from engine.providers.llms.prompts import signature
from engine.providers.llms.questions import A, Pains, Question, Solution
from engine.providers.llms.rules import Rules
from jiyi.errors import LLMUnavailable
from jiyi.protocol.conversations.types import Message
from jiyi.protocol.growth.pain_types import FoundPains, KnownSolution
from jiyi.settings import get_settings
from jiyi.text.words import language_of
from models.conversations import experiences, extractions
from models.conversations.extractions import StoredTurn
from models.db.connection import unit_of_work
from models.growth.owing import MERGE_PAINS, SOLVE_PAIN
from models.growth.pains import pains, proposals, turns
from models.growth.pains.pains import Told
from models.growth.pains.turns import NewTurns
from models.memory.agents import agents
from models.memory.agents.agents import AgentName, lock_agents
from models.memory.ingestion.inbox import Stored
from models.queue import news, pending_work
from models.queue.wakeups import wake
from tasks.framework.lease import LeaseRenewingLLM
from tasks.framework.work import Batch, work_task

log = logging.getLogger(__name__)

#: Seconds. The claim is extended before questions: some sessions, one question each.
TIME_LIMIT = 600
#: What an LLM is shown with a pain point: quotes, and experiences that may help.
QUOTES_SHOWN, EXPERIENCES_SHOWN = 10, 50
#: Who confirmed a proposal that a user confirmed in words.
IN_WORDS = "user: in words"

#: A session's messages, their turns' ids, and what the new ones tell.
_Asked = tuple[list[Message], list[StoredTurn], FoundPains]


@work_task(MERGE_PAINS, queue="growth", batch=1, time_limit=TIME_LIMIT)
def merge_pains(batch: Batch) -> None:
    """Look through an agent's new turns for pain, and for words that a proposal helped.

    Safe to repeat because what was found, the cursor and the receipt are one transaction, which only the run that finds
    the cursor where it saw it gets to write; and a turn counts once for a pain point.
    """
    for agent_key in batch.subject_ids:
        with unit_of_work() as connection:
            name = agents.name_of(connection, agent_key)
            look = None if name is None else turns.new(connection, name, EXTRACT_MAX_MESSAGES)
        if name is None or look is None:  # erased since
            with batch.finish():
                continue
        found = [_ask(batch, name, look, session_id, some) for session_id, some in extractions.sessions_of(look.turns).items()]
        stored, owed_more = Stored(), False
        with batch.finish() as (connection, owed):
            if not owed:
                return
            lock_agents(connection, [name])
            if not look.turns or turns.move_cursor(connection, name, look.seen, look.turns[-1].node_count):
                for one in found:
                    owed_more |= _merge(connection, name, *one)
                    stored.add(_confirm(connection, name, *one))
            if turns.behind(connection, name):
                batch.again.append(agent_key)
        news.stored(stored)
        wake(*stored.owed, *([SOLVE_PAIN] if owed_more else []), *([MERGE_PAINS] if batch.again else []))


@work_task(SOLVE_PAIN, queue="growth", batch=1, time_limit=TIME_LIMIT)
def solve_pain(batch: Batch) -> None:
    """Propose what to do about a pain point.

    Safe to repeat because the proposal and the receipt are one transaction, and a pain point has one that waits at most.
    """
    for pain_id in batch.subject_ids:
        group_id = batch.scope.groups[0]
        with unit_of_work() as connection:
            pain = pains.find(connection, group_id, pain_id)
            question = None if pain is None else _solution(connection, group_id, pain_id)
        if pain is None or question is None or pain.status != "open":
            with batch.finish():
                continue
        made, model = _answer(batch, question)
        with batch.finish() as (connection, owed):
            name = (group_id, pain.agent_id)
            if not owed or agents.key_of(connection, *name) is None:
                return
            lock_agents(connection, [name])
            pain = pains.find(connection, group_id, pain_id)
            if pain is not None and pain.status == "open":
                proposals.add(connection, name, pain, made, f"{model} {signature(question, question.language)}")


def _ask(batch: Batch, name: AgentName, look: NewTurns, session_id: str, some: list[StoredTurn]) -> _Asked:
    before = look.context[session_id]
    every = [*before, *some]
    messages = [turn.message for turn in every]
    language = language_of("\n".join(turn.message.text for turn in some))
    question = Pains(agent_id=name[1], group_id=name[0], language=language, messages=messages, since=len(before))
    found, _ = _answer(batch, question)
    return messages, every, found


def _answer(batch: Batch, question: Question[A]) -> tuple[A, str]:
    """The answer, and whose it is: the rules stand in for an LLM that is away, where that is wanted."""
    try:
        llm = LeaseRenewingLLM(llms.llm(), batch)
        return llm.ask(question), llm.model
    except LLMUnavailable as error:
        if get_settings().extract_fallback != "rules":
            raise
        log.warning("the LLM is away (%s): answered by rules", error)
        return Rules().ask(question), Rules.model


def _merge(connection: Connection, name: AgentName, messages: list[Message], every: list[StoredTurn], found: FoundPains) -> bool:
    """Whether a proposal is owed now."""
    owes = False
    for one in found.pains:
        turn = every[one.turn]
        told = Told(
            source_id=turn.node_id,
            quote=one.summary,
            said_at=turn.message.at or datetime.now(UTC),
            session_id=turn.session_id,
            user_id=messages[one.turn].name,
        )
        pain = pains.merge(connection, name, one, told)
        if proposals.wanted(connection, name[0], pain):
            pending_work.enqueue(connection, SOLVE_PAIN, [(pain.pain_id, name[0])])
            owes = True
    return owes


def _confirm(connection: Connection, name: AgentName, messages: list[Message], every: list[StoredTurn], found: FoundPains) -> Stored:
    """What users say helped becomes experiences."""
    stored = Stored()
    for turn in found.helped:
        proposal_id = confirmed(messages, turn, proposals.offers(connection, name))
        proposal = None if proposal_id is None else proposals.find(connection, name[0], proposal_id)
        pain = None if proposal is None else pains.find(connection, name[0], proposal.pain_id)
        if proposal is not None and pain is not None:
            said_at = messages[turn].at or datetime.now(UTC)
            done = proposals.confirm(connection, name, pain, proposal, IN_WORDS, said_at, [every[turn].node_id])
            if done is not None:
                stored.add(done[0])
    return stored


def _solution(connection: Connection, group_id: str, pain_id: UUID) -> Solution | None:
    """What is asked about a pain point."""
    pain = pains.find(connection, group_id, pain_id)
    if pain is None:
        return None
    name = (group_id, pain.agent_id)
    known = experiences.of_agent(connection, name, EXPERIENCES_SHOWN)
    advice = [step for answer in turns.answers_after(connection, name, pain_id) for step in advice_in(answer)]
    return Solution(
        agent_id=pain.agent_id,
        group_id=group_id,
        language=language_of(pain.summary),
        text=pain.summary,
        category=pain.category,
        quotes=[one.quote for one in pains.quotes(connection, group_id, pain_id, QUOTES_SHOWN)],
        experiences=[KnownSolution(problem=one.pain_pattern, steps=one.solution_steps, outcome=one.outcome) for one in known],
        advice=list(dict.fromkeys(advice)),
    )
