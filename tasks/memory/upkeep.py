"""What a new memory changes around it: keyword strengths, and the importance that calls for reflection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from sqlalchemy import Connection

from jiyi.errors import EvidenceMissing
from jiyi.text.words import tokens
from models.db.connection import unit_of_work
from models.memory import nodes
from models.memory.work import ACCUMULATE, DEPTH, ENLARGE, STRENGTHEN, TOKENIZE
from models.queue import pending_work
from models.queue.wakeups import wake
from models.reflection.reflections import REFLECT
from models.retrieval import enlargement
from tasks.framework.work import Batch, work_task

#: Counting is cheap, so one run takes many: the cost is in the round trips.
COUNTING_BATCH = 1_000
#: Nodes marked in one transaction: each is written anew, so that many would hold up others for long.
MARKING_BATCH = 5_000
#: Thoughts that one transaction follows upwards: it holds their agent, and each takes some milliseconds.
DEPTHS_AT_ONCE = 100
#: Agents that become large in one run.
ENLARGING_BATCH = 16


@work_task(STRENGTHEN, batch=COUNTING_BATCH, time_limit=60)
def strengthen(batch: Batch) -> None:
    """Add new nodes' keywords to ``kw_strength``.

    Safe to repeat because the counts and the receipt are one transaction.
    """
    with batch.finish() as (connection, owed):
        nodes.strengthen(connection, owed)


@work_task(ACCUMULATE, batch=COUNTING_BATCH, time_limit=60)
def accumulate(batch: Batch) -> None:
    """Add new events' poignancy up; at the agent's trigger, owe it a reflection.

    Safe to repeat because the sums, the reflection owed and the receipt are one transaction.
    """
    with batch.finish() as (connection, owed):
        pending_work.enqueue(connection, REFLECT, nodes.accumulate(connection, owed))
    wake(REFLECT)


@work_task(DEPTH, batch=1, time_limit=60)
def settle_depth(batch: Batch) -> None:
    """Set the depth of a thought that came before its evidence, and see to the thoughts that rest on it.

    Evidence that never comes ends as a dead letter; the thought itself stays. Safe to repeat because the depth
    follows from the evidence alone; what it rests on cannot change between the reading and the receipt, which are one transaction.
    """
    try:
        with batch.finish() as (connection, owed):
            _settle_depths(connection, owed, complete=True)
    except EvidenceMissing:
        with unit_of_work() as connection:  # what is known by now counts; the rest stays owed
            _settle_depths(connection, batch.subject_ids, complete=False)
        raise
    finally:
        wake(DEPTH)


def _settle_depths(connection: Connection, node_ids: Sequence[UUID], *, complete: bool) -> None:
    """Raises EvidenceMissing if the evidence is to be complete, and is not."""
    missing = 0
    for node_id in node_ids:
        settled = nodes.settle_depth(connection, node_id)
        pending_work.enqueue(connection, DEPTH, _follow(connection, settled.dependants))
        missing += settled.missing
    if missing and complete:
        raise EvidenceMissing(f"{missing} of the thought's evidence ids belong to no memory of its agent (yet)")


def _follow(connection: Connection, dependants: Iterable[tuple[UUID, str]]) -> list[tuple[UUID, str]]:
    """Settle what rests on a thought, and what rests on that; what is left after so many is returned, to be owed.

    They are the same agent's, which is locked already. If each level were owed, the levels of a chain that came in disorder would
    be settled in turns: as often as the square of its length. What of a thought's evidence is missing, its own receipt knows.
    """
    waiting = dict(dependants)
    for _ in range(DEPTHS_AT_ONCE):
        if not waiting:
            break
        node_id = next(iter(waiting))
        del waiting[node_id]
        waiting.update(nodes.settle_depth(connection, node_id).dependants)
    return list(waiting.items())


@work_task(TOKENIZE, batch=COUNTING_BATCH, time_limit=60)
def tokenize(batch: Batch) -> None:
    """Give nodes the tokens that lexical search knows them by.

    Safe to repeat because the tokens follow from the text alone.
    """
    with batch.finish() as (connection, owed):
        nodes.lock(connection, owed)
        nodes.fill_tokens(connection, [(node_id, tokens(text)) for node_id, text in nodes.texts_of(connection, owed)])


@work_task(ENLARGE, batch=ENLARGING_BATCH, time_limit=110, alone=True)
def enlarge(batch: Batch) -> None:
    """Make agents served from the database's own indexes: they are too large for a worker's memory.

    Takes minutes for the first; the lease may run out meanwhile, but nobody else does the same. Safe to repeat
    because every step is.
    """
    for agent_key in batch.subject_ids:
        with unit_of_work() as connection:
            agent = enlargement.begin(connection, agent_key)
        if agent is not None:
            _enlarge(agent)
    with batch.finish():
        pass


def _enlarge(agent: enlargement.EnlargedAgent) -> None:
    marked = MARKING_BATCH
    while marked == MARKING_BATCH:  # ends: new nodes come marked
        with unit_of_work() as connection:
            marked = enlargement.mark(connection, agent, MARKING_BATCH)
    with unit_of_work() as connection:
        enlargement.count_terms(connection, agent)
        models = enlargement.models_of(connection, agent)
    for model, dimensions in models:
        enlargement.build_index(model, dimensions)
    with unit_of_work() as connection:
        enlargement.finish(connection, agent)
