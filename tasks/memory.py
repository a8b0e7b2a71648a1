"""Pending work of memories: vectors, keyword strengths and importance of new ones, and buffered accesses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from celery import current_app, shared_task
from redis.client import Pipeline
from sqlalchemy import Connection

from engine.providers.embedder_specs import chars_at_once, texts_at_once
from engine.providers.embedders import MAX_CHARS
from jiyi import tracing
from jiyi.errors import EvidenceMissing
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.db.scope import within
from models.db.valkey import valkey
from models.memory import access, nodes
from models.memory.nodes import TextToEmbed
from models.memory.work import ACCUMULATE, DEPTH, EMBED, STRENGTHEN, TOKENIZE
from models.operations import embedding_models, histograms
from models.queue import pending_work, stream
from models.queue.wakeups import wake
from models.reflection.reflections import REFLECT
from models.retrieval import records
from tasks.framework.embedding import in_use
from tasks.framework.work import Batch, work_task

K = TypeVar("K")
#: Counting is cheap, so one run takes many: the cost is in the round trips.
COUNTING_BATCH = 1_000
#: Thoughts that one transaction follows upwards: it holds their agent, and each takes some milliseconds.
DEPTHS_AT_ONCE = 100
#: Seconds that one batch may take: 90 until it has its vectors, and as long before that, while a model of
#: this machine works at another.
TIME_LIMIT = 180


@work_task(STRENGTHEN, batch=COUNTING_BATCH, time_limit=60)
def strengthen(batch: Batch) -> None:
    """Add new nodes' keywords to ``kw_strength``.

    Safe to repeat because the counts and the receipt are one transaction.
    """
    with batch.finish() as (connection, pending):
        nodes.strengthen(connection, pending)


@work_task(ACCUMULATE, batch=COUNTING_BATCH, time_limit=60)
def accumulate(batch: Batch) -> None:
    """Add up new events' poignancy; at the agent's trigger, enqueue a reflection.

    Safe to repeat because the sums, the pending reflection and the receipt are one transaction.
    """
    with batch.finish() as (connection, pending):
        pending_work.enqueue(connection, REFLECT, nodes.accumulate(connection, pending))


@work_task(DEPTH, batch=1, time_limit=60)
def settle_depth(batch: Batch) -> None:
    """Set the depth of a thought that came before its evidence, and see to the thoughts that rest on it.

    Evidence that never comes ends as a dead letter; the thought itself stays. Safe to repeat because the
    depth follows from the evidence alone, and is one transaction with the receipt.
    """
    try:
        with batch.finish() as (connection, pending):
            _settle_depths(connection, pending, complete=True)
    except EvidenceMissing:
        with unit_of_work() as connection:  # what is known by now counts; the rest stays pending
            _settle_depths(connection, batch.subject_ids, complete=False)
        raise


def _settle_depths(connection: Connection, node_ids: Sequence[UUID], *, complete: bool) -> None:
    """Raises EvidenceMissing if the evidence is to be complete, and is not."""
    missing = 0
    for node_id in node_ids:
        settled = nodes.settle_depth(connection, node_id)
        pending_work.enqueue(connection, DEPTH, _follow(connection, settled.dependants))
        missing += settled.missing
    if missing and complete:
        raise EvidenceMissing(
            f"{missing} of the thought's evidence ids belong to no memory of its agent (yet)"
        )


def _follow(connection: Connection, dependants: Iterable[tuple[UUID, str]]) -> list[tuple[UUID, str]]:
    """Settle a thought's dependants, and theirs in turn; returns those left after so many, to be enqueued.

    They are the same agent's, which is locked already. If each level were enqueued, a chain that came in
    disorder would be settled as often as the square of its length.
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

    Safe to repeat because they follow from the text alone.
    """
    with batch.finish() as (connection, pending):
        nodes.lock(connection, pending)
        nodes.fill_words(connection, pending)


@dataclass(frozen=True, slots=True)
class _BatchVectors:
    """A batch's texts, and the vectors of those that no memory of the group has yet, by the texts' hashes."""

    texts: list[TextToEmbed]
    vectors: Mapping[bytes, Float32]
    model: str
    spec: str
    #: Of the vectors; None if there are none.
    dimensions: int | None


def _embed_texts(batches: list[Batch]) -> None:
    """Make the vectors of all groups' texts in one call; equal texts share one computation.

    What is too much for one run is left to others: each group has an equal share of its characters.
    """
    with unit_of_work() as connection:
        engine, spec = in_use(connection)
    most = chars_at_once(get_settings())
    texts: list[list[TextToEmbed]] = []
    for batch in batches:
        with within(batch.scope), unit_of_work() as connection:
            items = nodes.texts_to_embed(connection, batch.subject_ids, engine.model)
        texts.append(items if most is None else _that_fit(items, most // len(batches)))
        if remaining := {item.node_id for item in items} - {item.node_id for item in texts[-1]}:
            batch.leave(remaining)
            wake(EMBED)
    missing = {item.key_hash: item.embedding_key for items in texts for item in items if item.reuse is None}
    matrix = engine.passages(list(missing.values())) if missing else None
    vectors = {} if matrix is None else dict(zip(missing, matrix, strict=True))
    for batch, items in zip(batches, texts, strict=True):
        dimensions = None if matrix is None else matrix.shape[1]
        batch.prepared = _BatchVectors(items, vectors, engine.model, spec, dimensions)


def _that_fit(items: list[TextToEmbed], chars: int) -> list[TextToEmbed]:
    """The first texts with at most so many characters that a model of this machine reads; one at least."""
    ends = itertools.accumulate(
        min(len(item.embedding_key), MAX_CHARS) if item.reuse is None else 0 for item in items
    )
    fits = [item for item, end in zip(items, ends, strict=True) if end <= chars]
    return fits or items[:1]


@work_task(EMBED, batch=texts_at_once(get_settings()), time_limit=TIME_LIMIT, prepare=_embed_texts)
def embed(batch: Batch) -> None:
    """Embed the texts of new nodes; what a memory of the group has for the same text and model is copied.

    Safe to repeat because a node that has its vector is neither pending any more nor overwritten.
    """
    embedded: _BatchVectors = batch.prepared
    texts, vectors = embedded.texts, embedded.vectors
    copies = {item.node_id: item.reuse for item in texts if item.reuse is not None}
    with batch.finish() as (connection, pending):
        if embedded.dimensions is not None:
            embedding_models.hold(connection, embedded.model, embedded.spec, embedded.dimensions)
        nodes.lock(connection, pending)
        nodes.copy_embeddings(
            connection, [(node_id, copies[node_id]) for node_id in pending if node_id in copies]
        )
        new = [item for item in texts if item.key_hash in vectors and item.node_id in set(pending)]
        ids = [item.node_id for item in new]
        nodes.fill_embeddings(connection, ids, [vectors[item.key_hash] for item in new], embedded.model)
    stream.retrievable(
        [(item.group_id, item.agent_id, item.node_id) for item in texts if item.node_id in set(pending)]
    )
    histograms.retrievable(item.node_id for item in texts if item.node_id in set(pending))
    tracing.mark("retrievable", [batch.traces[node_id] for node_id in pending if node_id in batch.traces])


def note_accesses(group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """The agent's memories were accessed at ``at`` (epoch seconds): all workers hear of it, the database
    soon.
    """
    if not node_ids:
        return
    with valkey().pipeline(transaction=False) as pipe:
        then = note_accesses_with(pipe, group_id, agent_id, node_ids, at)
        then(pipe.execute())


def note_accesses_with(
    pipe: Pipeline, group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float
) -> Callable[[list[Any]], None]:
    """The same, in a pipeline of the caller's: call what is returned with its answers. There is at least one
    id.
    """
    records.publish_accesses_with(pipe, group_id, agent_id, node_ids, at)
    access.touch(pipe, group_id, node_ids, at)
    is_due = len(pipe) - 1

    def flush_soon(answers: list[Any]) -> None:
        # Nobody else sees to it that what was noted is written, together with others, a moment later.
        if answers[is_due]:
            access.keep_bounded()
            current_app.send_task("access.flush", queue="upkeep", countdown=access.DUE_SECONDS)

    return flush_soon


@shared_task(name="access.flush", time_limit=60, ignore_result=True, expires=60)
def flush_accesses() -> None:
    """Write the buffered access times, and what was asked, in one batch each.

    Safe to repeat because times only move forward, and an empty buffer is nothing to do.
    """
    access.flush()
    records.flush()
