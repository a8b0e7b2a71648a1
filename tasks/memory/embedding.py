"""Descriptions become vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.providers.embedder_specs import texts_at_once
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.db.scope import within
from models.memory import nodes
from models.memory.nodes import TextToEmbed
from models.memory.work import EMBED
from models.operations import embedding_models
from models.queue import news
from tasks.framework.embedding import in_use
from tasks.framework.work import Batch, work_task

#: Seconds that one batch may take: 90 until it has its vectors, and as long before that, while a model of this machine works at another.
TIME_LIMIT = 180


@dataclass(frozen=True, slots=True)
class _Embedded:
    """A batch's texts, and the vectors of those that no memory of the group has yet, by the texts' hashes."""

    wanted: list[TextToEmbed]
    vectors: Mapping[bytes, Float32]
    model: str
    spec: str
    #: Of the vectors; None if there are none.
    dimensions: int | None


def _embed_texts(batches: list[Batch]) -> None:
    """Make the vectors of all groups' texts in one call; equal texts share one computation."""
    with unit_of_work() as connection:
        engine, spec = in_use(connection)
    wanted: list[list[TextToEmbed]] = []
    for batch in batches:
        with within(batch.scope), unit_of_work() as connection:
            wanted.append(nodes.texts_to_embed(connection, batch.subject_ids, engine.model))
    missing = {item.key_hash: item.embedding_key for items in wanted for item in items if item.reuse is None}
    made = engine.passages(list(missing.values())) if missing else None
    vectors = {} if made is None else dict(zip(missing, made, strict=True))
    for batch, items in zip(batches, wanted, strict=True):
        batch.prepared = _Embedded(items, vectors, engine.model, spec, None if made is None else made.shape[1])


@work_task(EMBED, batch=texts_at_once(get_settings()), time_limit=TIME_LIMIT, prepare=_embed_texts)
def embed(batch: Batch) -> None:
    """Embed the texts of new nodes; what a memory of the group has for the same text, by the same model, is copied.

    Safe to repeat because a node that has its vector is not among those still owed, nor overwritten.
    """
    embedded: _Embedded = batch.prepared
    wanted, vectors = embedded.wanted, embedded.vectors
    known = {item.node_id: item.reuse for item in wanted if item.reuse is not None}
    with batch.finish() as (connection, owed):
        if embedded.dimensions is not None:
            embedding_models.hold(connection, embedded.model, embedded.spec, embedded.dimensions)
        nodes.lock(connection, owed)
        nodes.copy_embeddings(connection, [(node_id, known[node_id]) for node_id in owed if node_id in known])
        new = [item for item in wanted if item.key_hash in vectors and item.node_id in set(owed)]
        ids = [item.node_id for item in new]
        nodes.fill_embeddings(connection, ids, [vectors[item.key_hash] for item in new], embedded.model)
    news.retrievable([(item.group_id, item.agent_id, item.node_id) for item in wanted if item.node_id in set(owed)])
