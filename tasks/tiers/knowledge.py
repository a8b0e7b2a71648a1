"""Knowledge gets its vectors."""

from __future__ import annotations

from jiyi.settings import get_settings
from models.tiers import knowledge
from models.tiers.knowledge import EMBED_KNOWLEDGE
from tasks.framework.embedding import embed_owed
from tasks.framework.work import Batch, work_task


@work_task(EMBED_KNOWLEDGE, batch=get_settings().embed_batch, time_limit=90)
def embed_knowledge(batch: Batch) -> None:
    """Embed pieces of knowledge that have no vector of the model in use.

    Safe to repeat because a piece that has its vector is passed over, and one whose words have changed meanwhile is
    embedded again.
    """
    embed_owed(batch, knowledge)
