"""Knowledge gets its vectors."""

from __future__ import annotations

from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.operations import embedding_models
from models.tiers import knowledge
from models.tiers.knowledge import EMBED_KNOWLEDGE
from tasks.framework.work import Batch, work_task
from tasks.memory.embedding import in_use


@work_task(EMBED_KNOWLEDGE, queue="embedding", batch=get_settings().embed_batch, time_limit=90)
def embed_knowledge(batch: Batch) -> None:
    """Embed pieces of knowledge that have no vector of the model in use (CN-37, CN-50).

    Safe to repeat because a piece that has its vector is passed over, and one whose words have changed meanwhile is
    embedded again.
    """
    with unit_of_work() as connection:
        engine, spec = in_use(connection)
        wanted = knowledge.to_embed(connection, batch.subject_ids, engine.model)
    made = engine.passages([content for _, content in wanted]) if wanted else None
    with batch.finish() as (connection, owed):
        if made is None:
            return
        embedding_models.hold(connection, engine.model, spec, made.shape[1])
        mine = set(owed)
        vectors = zip(wanted, made, strict=True)
        knowledge.fill(connection, [(one, content, vector) for (one, content), vector in vectors if one in mine], engine.model)
        batch.again.extend(one for one, _ in knowledge.to_embed(connection, owed, engine.model))
