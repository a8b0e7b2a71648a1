"""Missing values of new memories (importance, triples, keywords), asked of the LLM or of the rules."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar
from uuid import UUID

from engine.memory import Appraisal, appraise, missing
from engine.providers.llms import LLM, RULES, ForGroup, llm
from jiyi import tracing
from jiyi.errors import JiyiError, LLMUnavailable
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.db.scope import within
from models.memory import nodes
from models.memory.nodes import PendingAppraisal
from models.memory.work import APPRAISE
from tasks.framework.work import TRANSIENT_ERRORS, Batch, LeaseRenewingLLM, or_by_rules, with_llm, work_task

K = TypeVar("K")
#: An answer may take seconds: few memories a batch, so that the first are not kept waiting for the last.
APPRAISE_BATCH = 16
#: The rules answer at once: then the cost is in the round trips.
RULES_BATCH = 256
#: Seconds after which a batch asks nothing more and writes what it has: that much is lost with a worker that
#: dies.
ASK_SECONDS = 45.0
#: Seconds; a few questions about one memory may still be open by then. The claim is extended before each of
#: them.
APPRAISE_TIME_LIMIT = 900


def _ask_for_all(batches: list[Batch]) -> None:
    waiting: list[dict[UUID, PendingAppraisal]] = []
    for batch in batches:
        with within(batch.scope), unit_of_work() as connection:
            waiting.append(nodes.load(connection, batch.subject_ids))
    everything = {
        (number, node_id): node for number, own in enumerate(waiting) for node_id, node in own.items()
    }
    answered, failures = ask(LeaseRenewingLLM(llm(), *batches), everything)
    for number, (batch, own) in enumerate(zip(batches, waiting, strict=True)):
        mine = {node_id: appraisal for (of, node_id), appraisal in answered.items() if of == number}
        batch.prepared = (own, mine, [(node_id, error) for (of, node_id), error in failures if of == number])


@work_task(
    APPRAISE,
    batch=RULES_BATCH if get_settings().llm == RULES else APPRAISE_BATCH,
    time_limit=with_llm(APPRAISE_TIME_LIMIT),
    prepare=_ask_for_all,
)
def appraise_memories(batch: Batch) -> None:
    """Ask for missing values of new memories, and enqueue what had to wait for them: keyword strengths and
    the sum of importance.

    Those that were answered are written even if others failed. Safe to repeat because the values, what they
    set off and the receipt are one transaction.
    """
    waiting, answered, failures = batch.prepared
    failed = {node_id for node_id, _ in failures}
    answered_batch = Batch(batch.kind, [node_id for node_id in batch.subject_ids if node_id not in failed])
    with answered_batch.finish() as (connection, pending):
        appraisals = {node_id: answered[node_id] for node_id in pending if node_id in answered}
        nodes.write(connection, waiting, appraisals)
    if not failures:
        return
    batch.subject_ids = list(failed)
    away = [(node_id, error) for node_id, error in failures if isinstance(error, TRANSIENT_ERRORS)]
    if len(away) == len(failures):
        raise away[0][1]
    if away:  # no fault of theirs; while the others' attempt counts, else they would be asked about for ever
        batch.put_off([node_id for node_id, _ in away], away[0][1])
    raise next(error for _, error in failures if not isinstance(error, TRANSIENT_ERRORS))


def ask(
    provider: LLM, waiting: Mapping[K, PendingAppraisal]
) -> tuple[dict[K, Appraisal], list[tuple[K, JiyiError]]]:
    """The appraisals there are, and for each memory without one the reason."""
    deadline = time.monotonic() + ASK_SECONDS
    away = Event()

    def one(node: PendingAppraisal) -> Appraisal | JiyiError:
        lacks = missing(node.memory, node.settings, get_settings())
        if lacks and (away.is_set() or time.monotonic() > deadline):
            return LLMUnavailable("the LLM is away, or too slow for the whole batch: the rest of it waits")
        try:
            return or_by_rules(
                ForGroup(provider, node.group_id), lambda model: appraise(model, node.memory, lacks)
            )[0]
        except TRANSIENT_ERRORS as error:
            away.set()
            return error
        except JiyiError as error:
            return error

    with ThreadPoolExecutor(get_settings().llm_questions, thread_name_prefix="ask") as pool:
        results = dict(zip(waiting, pool.map(tracing.bound(one), waiting.values()), strict=True))
    answered = {node_id: result for node_id, result in results.items() if isinstance(result, Appraisal)}
    failed = [(node_id, result) for node_id, result in results.items() if isinstance(result, JiyiError)]
    return answered, failed
