"""Descriptions become vectors."""

from __future__ import annotations

from sqlalchemy import Connection

from jiyi.providers.embedders import Embedder, embedder, embedder_of
from jiyi.providers.embedders.choice import chosen
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.memory import nodes
from models.memory.inbox import EMBED
from models.operations import embedding_models
from models.queue import news
from tasks.framework.work import Batch, work_task


@work_task(EMBED, queue="embedding", batch=get_settings().embed_batch, time_limit=90)
def embed(batch: Batch) -> None:
    """Embed the texts of new nodes; equal texts of a group, by one model, share one computation.

    Safe to repeat because a node that has its vector is not among those still owed, nor overwritten.
    """
    with unit_of_work() as connection:
        engine, spec = in_use(connection)
        wanted = nodes.texts_to_embed(connection, batch.subject_ids, engine.model)
    known = {item.node_id: item.reuse for item in wanted if item.reuse is not None}
    missing = {item.key_hash: item.embedding_key for item in wanted if item.reuse is None}
    made = engine.passages(list(missing.values())) if missing else None
    vectors = {} if made is None else dict(zip(missing, made, strict=True))
    with batch.finish() as (connection, owed):
        if made is not None:
            embedding_models.hold(connection, engine.model, spec, made.shape[1])
        nodes.lock(connection, owed)
        nodes.copy_embeddings(connection, [(node_id, known[node_id]) for node_id in owed if node_id in known])
        new = [item for item in wanted if item.key_hash in vectors and item.node_id in set(owed)]
        ids = [item.node_id for item in new]
        nodes.fill_embeddings(connection, ids, [vectors[item.key_hash] for item in new], engine.model)
    news.retrievable([(item.group_id, item.agent_id, item.node_id) for item in wanted if item.node_id in set(owed)])


def in_use(connection: Connection) -> tuple[Embedder, str]:
    """The deployment's embedder and its name: the one that its memories have, else the one that the settings name."""
    used = embedding_models.active_model(connection)
    if used is not None:
        return embedder_of(used.spec), used.spec
    return embedder(), str(chosen(get_settings()))
