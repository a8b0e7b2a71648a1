"""Memories are extracted from an agent's new turns, and memories are summarised."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from engine.conversations.memories import ExtractionSource, of_user, worth_keeping
from engine.conversations.pieces import RunPatience
from engine.conversations.standing import Standing, own, standing
from engine.heads.local import heads
from engine.providers import llms
from engine.providers.llm_prompts import signature
from engine.providers.questions import Extraction, Summarised, Summary
from engine.rules.provider import Rules, StandIn
from jiyi.errors import BadReply, LLMUnavailable
from jiyi.protocol.conversations import CombinedExtraction
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.words import language_of
from models.conversations import entries, extraction_schedule, extractions
from models.conversations.extraction_schedule import EXTRACT, EXTRACT_MAX_MESSAGES, EXTRACT_MIN_MESSAGES
from models.conversations.extractions import Extracted, Session, StoredFact, StoredTurn
from models.db.connection import unit_of_work
from models.memory import agents
from models.memory.agents import AgentName
from models.memory.work import SUMMARIZE
from tasks.conversations.asking import extract_parts
from tasks.framework.work import Batch, LeaseRenewingLLM, answer_or_rules, with_llm, work_task

log = logging.getLogger(__name__)

#: Seconds. The claim is extended before questions: some sessions, one question each.
EXTRACTION_TIME_LIMIT = 600
#: Less important memories, 1 to 10, are dropped; the rules give 3 at least.
LEAST_IMPORTANCE = 3.0


#: Agents whose LLM went away in the middle of a run, and how many turns the next one looks at.
_fewer: dict[UUID, int] = {}


@dataclass(frozen=True, slots=True)
class _ExtractionInputs:
    """What one run extracts from."""

    name: AgentName
    #: The cursor; None where one turn is looked at once more, which moves nothing.
    cursor: int | None
    turns: list[StoredTurn]
    context: dict[Session, list[StoredTurn]]
    #: What is known of each of the users, and was put before the agent's latest answers to them.
    known_facts: dict[str | None, list[StoredFact]]
    #: What each of the users said before.
    earlier: dict[str | None, list[StoredTurn]]
    injected: dict[str | None, list[str]]


@work_task(EXTRACT, batch=1, time_limit=with_llm(EXTRACTION_TIME_LIMIT))
def extract(batch: Batch) -> None:
    """Process an agent's new turns, session by session, and store what is extracted from them.

    A subject is an agent, or a turn that the LLM had no answer to, which it is asked about once more, outside
    of any transaction. Safe to repeat because the memories, the cursor and the receipt are one transaction,
    which only the run that finds the cursor where it saw it gets to write: a run that fails moves nothing.
    """
    for subject in batch.subject_ids:
        inputs = _load_inputs(batch.group_id, subject)
        if inputs is None:
            with batch.finish():
                continue
        patience = RunPatience()
        extracted: list[Extracted] = []
        try:
            for session, turns in extractions.sessions_of(extractions.said(inputs.turns)).items():
                extracted += extract_session(batch, inputs, session, turns, patience)
                inputs.earlier[session[1]].extend(turns)
        except LLMUnavailable:
            if patience.good:  # it answers so many questions and no more: fewer may be answered in one run
                _fewer[subject] = max(EXTRACT_MIN_MESSAGES, len(inputs.turns) // 2)
            raise
        _fewer.pop(subject, None)
        if not patience.good:  # it answers nothing: no turn is at fault, unless others are let through
            refused = [one.refusal if one.refusal and one.refusal.refused else None for one in extracted]
            extracted = [replace(one, refusal=why) for one, why in zip(extracted, refused, strict=True)]
        with batch.finish() as (connection, pending):
            if not pending:
                return
            now = datetime.now(UTC)
            extractions.store_extracted(connection, inputs.name, inputs.cursor, inputs.turns, extracted, now)
            again = None if inputs.cursor is None else extraction_schedule.due_again(connection, inputs.name)
            if again is not None:
                batch.later[subject] = again


def _load_inputs(group_id: str, subject: UUID) -> _ExtractionInputs | None:
    """None for an agent, or a turn, that was erased meanwhile."""
    with unit_of_work() as connection:
        name, cursor = agents.name_of(connection, subject), None
        if name is not None:
            cursor = extractions.cursor(connection, name)
            turns = extractions.new_turns(connection, name, cursor, _fewer.get(subject, EXTRACT_MAX_MESSAGES))
        elif (again := extractions.turn_again(connection, group_id, subject)) is not None:
            name, turns = again
        else:
            return None
        context = {
            session: extractions.context_of(connection, name, session, of_session[0].node_count)
            for session, of_session in extractions.sessions_of(turns).items()
        }
        inputs = _ExtractionInputs(name, cursor, turns, context, {}, {}, {})
        for user in {turn.user_id for turn in turns}:
            theirs = [turn for turn in turns if turn.user_id == user]
            user_turn_ids = [turn.node_id for turn in theirs if turn.message.role == "user"]
            inputs.known_facts[user] = extractions.known_facts(connection, name, user_turn_ids, user)
            inputs.earlier[user] = extractions.earlier_turns(connection, name, theirs, user)
            inputs.injected[user] = extractions.injected_lately(connection, name, user)
        return inputs


def extract_session(
    batch: Batch, inputs: _ExtractionInputs, session: Session, turns: list[StoredTurn], patience: RunPatience
) -> list[Extracted]:
    """The extractions from a session's new turns; their changes to earlier turns are with the first part."""
    (group_id, agent_id), (session_id, user_id) = inputs.name, session
    before, known_facts = extractions.said(inputs.context[session]), inputs.known_facts[user_id]
    all_turns = [turn.said() for turn in (*before, *turns)]
    changes = standing(all_turns, len(before), [turn.said() for turn in inputs.earlier[user_id]], heads())
    question = Extraction(
        agent_id=agent_id,
        group_id=group_id,
        language=language_of("\n".join(turn.message.text for turn in turns)),
        messages=[own(turn, changes) for turn in all_turns],
        since=len(before),
        known=[fact.fact for fact in known_facts],
    )
    llm, where = LeaseRenewingLLM(llms.llm(), batch), (group_id, agent_id, session_id)
    extracted = []
    for part in extract_parts(llm, question, patience, alone=inputs.cursor is None):
        ids = [all_turns[number].node_id for number in part.turns]
        source = ExtractionSource(*where, part.messages, ids, part.llm, part.prompt, part.fallback, user_id)
        of_users = of_user(part.extraction, part.messages)
        extraction = worth_keeping(of_users, inputs.injected[user_id], LEAST_IMPORTANCE)
        extracted.append(
            Extracted(source, extraction, [fact.node_id for fact in known_facts], Standing(), part.refusal)
        )
    if extracted:
        return [replace(extracted[0], standing=changes), *extracted[1:]]
    prompt = signature(question, question.language)
    nothing = ExtractionSource(*where, [], [], Rules.model, prompt, user_id=user_id)
    return [Extracted(nothing, CombinedExtraction(), [], changes)]


#: Memories of one run.
SUMMARIES_AT_ONCE = 20
#: Seconds. The claim is extended before questions.
SUMMARY_TIME_LIMIT = 600
OVERVIEW_TOKENS, ABSTRACT_TOKENS = 200, 100


@work_task(SUMMARIZE, batch=SUMMARIES_AT_ONCE, time_limit=with_llm(SUMMARY_TIME_LIMIT))
def summarize(batch: Batch) -> None:
    """Make overview and abstract of memories that have none.

    A text no longer than an overview is its own. Safe to repeat because what is written depends on the memory
    alone, and is written with the receipt.
    """
    with unit_of_work() as connection:
        rows = entries.to_summarise(connection, batch.subject_ids)
    llm = LeaseRenewingLLM(llms.llm(), batch)
    summaries = {row.node_id: _summarised(llm, row.group_id, row.agent_id, row.description) for row in rows}
    with batch.finish() as (connection, pending):
        for node_id in pending:
            if node_id in summaries:
                entries.save_summary(connection, node_id, *_limited_summary(summaries[node_id]))


def _summarised(llm: llms.LLM, group_id: str, agent_id: str, text: str) -> Summarised:
    question = Summary(agent_id=agent_id, group_id=group_id, language=language_of(text), text=text)
    if estimate_tokens(text) <= OVERVIEW_TOKENS:
        return Rules().ask(question).model_copy(update={"overview": text})
    try:
        return answer_or_rules(llm, question)[0]
    except BadReply as error:
        log.warning("a memory is summarised by rules: %s", error)
        return StandIn(llm.model).ask(question)


def _limited_summary(summary: Summarised) -> tuple[str, str]:
    abstract = cut_to_tokens(", ".join(summary.keywords), ABSTRACT_TOKENS)
    return cut_to_tokens(summary.overview, OVERVIEW_TOKENS), abstract
