"""What every worker does when something is erased: drop what its memory has of it."""

from __future__ import annotations

from typing import Any

from celery.worker.control import control_command

from jiyi.providers.embedders import cache
from jiyi.text import tokens as lexical
from jiyi.text.words import normalise
from models.erasure import caches
from models.retrieval import index_cache


@control_command(args=[("group_id", str), ("agents", list)])
def jiyi_forget(_state: Any, group_id: str, agents: list[str]) -> dict[str, Any]:
    """Drop indexes of the agents, and what else this process remembers of texts; says what it dropped, and who it is."""
    dropped = index_cache.forget(group_id, set(agents))
    dropped["questions"] = cache.forget()
    normalise.cache_clear()
    lexical.forget()
    return {"worker": caches.worker_id(), "dropped": dropped}
