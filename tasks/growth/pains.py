"""Pain points: new turns are merged, what hurts for sure gets a proposal, what helped is an experience."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection

from engine.conversations.pieces import ConversationPiece, PieceAnswer, RunPatience, ask_about, in_pieces
from engine.growth.pains import FoundPains, KnownSolution, advice_in, confirmed_proposal, of_trouble
from engine.growth.questions import PainQuestion, Solution
from engine.providers import llms
from engine.providers.llm_prompts import signature
from engine.rules.provider import StandIn
from jiyi.protocol.conversations import Message
from jiyi.text.words import language_of
from models.conversations import experiences, extractions
from models.conversations.extraction_schedule import EXTRACT_MAX_MESSAGES
from models.conversations.extractions import Session, StoredTurn
from models.db.connection import unit_of_work
from models.growth import pains, proposals
from models.growth.pains import NewTurns, PainReport
from models.growth.work import MERGE_PAINS, SOLVE_PAIN
from models.memory import agents
from models.memory.agents import AgentName, lock_agents
from models.queue import pending_work
from models.queue.wakeups import wake_after
from tasks.conversations.asking import learned
from tasks.framework.work import Batch, LeaseRenewingLLM, answer_or_rules, or_by_rules, with_llm, work_task

#: Seconds. The claim is extended before questions: some sessions, one question each.
TIME_LIMIT = 600
#: Tokens that answers may have, in effect unlimited: few messages mention trouble.
ANSWER_TOKENS = 1_000_000
#: What an LLM is shown with a pain point: quotes, and experiences that may help.
QUOTES_SHOWN, EXPERIENCES_SHOWN = 10, 50
#: Who confirmed a proposal that a user confirmed in words.
IN_WORDS = "user: in words"

#: A session's messages, their turns, and the pains found in the new ones.
_Asked = tuple[list[Message], list[StoredTurn], FoundPains]


@work_task(MERGE_PAINS, batch=1, time_limit=with_llm(TIME_LIMIT))
def merge_pains(batch: Batch) -> None:
    """Look through an agent's new turns for pain, and for words that a proposal helped.

    Safe to repeat because what was found, the cursor and the receipt are one transaction, which only the run
    that finds the cursor where it saw it gets to write; and a turn counts once for a pain point.
    """
    for agent_key in batch.subject_ids:
        with unit_of_work() as connection:
            name = agents.name_of(connection, agent_key)
            look = None if name is None else pains.new_turns(connection, name, EXTRACT_MAX_MESSAGES)
        if name is None or look is None:  # erased since
            with batch.finish():
                continue
        patience = RunPatience()
        answers = [
            answer
            for session, of_session in extractions.sessions_of(extractions.said(look.turns)).items()
            for answer in _ask(batch, name, look, session, of_session, patience)
        ]
        with batch.finish() as (connection, pending):
            if not pending:
                return
            lock_agents(connection, [name])
            if not look.turns or pains.move_cursor(connection, name, look.cursor, look.turns[-1].node_count):
                for answer in answers:
                    _merge(connection, name, *answer[1:])
                    _confirm(connection, name, *answer)
            if pains.is_behind(connection, name):
                batch.again.append(agent_key)
                wake_after(connection, MERGE_PAINS)


@work_task(SOLVE_PAIN, batch=1, time_limit=with_llm(TIME_LIMIT))
def solve_pain(batch: Batch) -> None:
    """Propose what to do about a pain point.

    Safe to repeat because the proposal and the receipt are one transaction, and a pain point has one that
    waits at most.
    """
    for pain_id in batch.subject_ids:
        group_id = batch.scope.groups[0]
        with unit_of_work() as connection:
            pain = pains.find_pain(connection, group_id, pain_id)
            question = None if pain is None else _solution(connection, group_id, pain_id)
        if pain is None or question is None or pain.status != "open":
            with batch.finish():
                continue
        solution, model = answer_or_rules(LeaseRenewingLLM(llms.llm(), batch), question)
        with batch.finish() as (connection, pending):
            name = (group_id, pain.agent_id)
            if not pending or agents.key_of(connection, *name) is None:
                return
            lock_agents(connection, [name])
            pain = pains.find_pain(connection, group_id, pain_id)
            if pain is not None and pain.status == "open":
                pains.add_proposal(
                    connection, name, pain, solution, f"{model} {signature(question, question.language)}"
                )


def _ask(
    batch: Batch,
    name: AgentName,
    look: NewTurns,
    session: Session,
    new: list[StoredTurn],
    patience: RunPatience,
) -> list[_Asked]:
    """The pains in a session's new turns, piece by piece; a turn that the LLM has no answer to is left to the
    rules.

    Only lines with a word of trouble or help are asked about, with those right before them.
    """
    before = extractions.said(look.context[session])
    every = [*before, *new]
    language = language_of("\n".join(turn.message.text for turn in new))
    room = replace(learned.room(), answer=ANSWER_TOKENS)
    pieces = list(
        filter(None, map(of_trouble, in_pieces([turn.message for turn in every], len(before), room)))
    )

    def question(piece: ConversationPiece) -> PainQuestion:
        return PainQuestion(
            agent_id=name[1], group_id=name[0], language=language, messages=piece.messages, since=piece.since
        )

    def answers(llm: llms.LLM) -> list[PieceAnswer[FoundPains]]:
        rules = StandIn(llm.model)
        return ask_about(
            pieces, lambda piece: llm.ask(question(piece)), lambda piece: rules.ask(question(piece)), patience
        )

    results, _ = or_by_rules(LeaseRenewingLLM(llms.llm(), batch), answers)
    messages = [turn.message for turn in every]
    return [
        (messages, every, _of_session(one.answer, [line.turn for line in one.piece.lines])) for one in results
    ]


def _of_session(answer: FoundPains, turns: list[int]) -> FoundPains:
    """What was found, by a session's message numbers. ``turns``: those of the lines asked about."""
    session_pains = [pain.model_copy(update={"turn": turns[pain.turn]}) for pain in answer.pains]
    return FoundPains(pains=session_pains, helped=[turns[line] for line in answer.helped])


def _merge(connection: Connection, name: AgentName, every: list[StoredTurn], answer: FoundPains) -> None:
    """Merge the found pains, and enqueue a proposal for each that is certain."""
    for pain_found in answer.pains:
        turn = every[pain_found.turn]
        report = PainReport(
            source_id=turn.node_id,
            quote=pain_found.summary,
            said_at=turn.message.at or datetime.now(UTC),
            session_id=turn.session_id,
            user_id=turn.user_id or turn.message.name,
        )
        pain = pains.merge_pain(connection, name, pain_found, report)
        if pains.wants_proposal(connection, name[0], pain):
            pending_work.enqueue(connection, SOLVE_PAIN, [(pain.pain_id, name[0])])


def _confirm(
    connection: Connection,
    name: AgentName,
    messages: list[Message],
    every: list[StoredTurn],
    answer: FoundPains,
) -> None:
    """What users say helped becomes experiences."""
    for turn in answer.helped:
        proposal_id = confirmed_proposal(messages, turn, pains.open_offers(connection, name))
        if proposal_id is not None:
            said_at = messages[turn].at or datetime.now(UTC)
            proposal = proposals.need(connection, name[0], proposal_id)
            proposals.decide(
                connection, proposal, name, "approve", IN_WORDS, at=said_at, turns=[every[turn].node_id]
            )


def _solution(connection: Connection, group_id: str, pain_id: UUID) -> Solution | None:
    """The question about a pain point."""
    pain = pains.find_pain(connection, group_id, pain_id)
    if pain is None:
        return None
    name = (group_id, pain.agent_id)
    known_experiences = experiences.most_used(connection, name, EXPERIENCES_SHOWN)
    advice = [step for answer in pains.answers_after(connection, name, pain_id) for step in advice_in(answer)]
    return Solution(
        agent_id=pain.agent_id,
        group_id=group_id,
        language=language_of(pain.summary),
        text=pain.summary,
        category=pain.category,
        quotes=[item.quote for item in pains.quotes(connection, group_id, pain_id, QUOTES_SHOWN)],
        experiences=[
            KnownSolution(problem=item.pain_pattern, steps=item.solution_steps, outcome=item.outcome)
            for item in known_experiences
        ],
        advice=list(dict.fromkeys(advice)),
    )
