"""Descriptions become vectors."""

from __future__ import annotations

from jiyi.embedders import embedder
from jiyi.settings import get_settings
from models import nodes
from models.base import unit_of_work
from models.inbox import EMBED
from tasks.work import Batch, work_task


@work_task(EMBED, queue="embedding", batch=get_settings().embed_batch, time_limit=90)
def embed(batch: Batch) -> None:
    """Embed the texts of new nodes; equal texts of a group, by one model, share one computation.

    Safe to repeat because a node that has its vector is not among those still owed, nor overwritten.
    """
    model = embedder().model
    with unit_of_work() as connection:
        wanted = nodes.texts_to_embed(connection, batch.subject_ids, model)
    known = {item.node_id: item.reuse for item in wanted if item.reuse is not None}
    missing = {item.key_hash: item.embedding_key for item in wanted if item.reuse is None}
    vectors = dict(zip(missing, embedder().passages(list(missing.values())), strict=True)) if missing else {}
    with batch.finish() as (connection, owed):
        nodes.copy_embeddings(connection, [(node_id, known[node_id]) for node_id in owed if node_id in known])
        new = [item for item in wanted if item.key_hash in vectors and item.node_id in set(owed)]
        nodes.fill_embeddings(connection, [item.node_id for item in new], [vectors[item.key_hash] for item in new], model)
