"""Hindsight's engine with no LLM (chunks mode, no consolidation) and its ``rrf`` reranker (no cross-encoder).

Its migrations fail without pg_trgm, which our embedded PostgreSQL does not have: it gets a PostgreSQL 18 of
its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from lines import Adapter, serve

BATCH = 50
#: Recall is cut by tokens, not by a count; so many hold the 30 longest turns.
MAX_TOKENS = 16_384


class Hindsight:
    def __init__(self, given: dict[str, Any]) -> None:
        import pgserver

        _check_reachable()
        self.server = pgserver.get_server(Path(given["folder"]) / "postgres", cleanup_mode="delete")
        try:
            self._connect(given, self.server.get_uri())
        except BaseException:
            self.close()
            raise

    def _connect(self, given: dict[str, Any], database_url: str) -> None:
        os.environ |= {
            "HINDSIGHT_API_DATABASE_URL": database_url,
            "HINDSIGHT_API_LLM_PROVIDER": "none",
            "HINDSIGHT_API_RERANKER_PROVIDER": "rrf",
            "HINDSIGHT_API_EMBEDDINGS_PROVIDER": "openai",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY": "none",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL": given["embeddings_url"],
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_MODEL": given["model"],
            "HINDSIGHT_API_SKIP_LLM_VERIFICATION": "true",
            "HINDSIGHT_API_LOG_LEVEL": "warning",
            "HF_HUB_OFFLINE": "1",
        }
        from hindsight_api import MemoryEngine
        from hindsight_api.models import RequestContext

        logging.disable(logging.INFO)
        self.context = RequestContext()
        self.loop = asyncio.new_event_loop()
        self.engine = self._call(self._start(MemoryEngine))

    async def _start(self, engine_class: Any) -> Any:
        engine = engine_class()
        await engine.initialize()
        return engine

    def _call(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def remember(self, agent: str, memories: list[dict[str, str]]) -> None:
        contents = [
            {
                "content": row["text"],
                "event_date": datetime.fromisoformat(row["time"]),
                "document_id": row["key"],
            }
            for row in memories
        ]
        for start in range(0, len(contents), BATCH):
            self._call(
                self.engine.retain_batch_async(
                    bank_id=agent, contents=contents[start : start + BATCH], request_context=self.context
                )
            )

    def ask(self, agent: str, question: str, top_k: int) -> list[str]:
        found = self._call(
            self.engine.recall_async(
                bank_id=agent, query=question, max_tokens=MAX_TOKENS, request_context=self.context
            )
        )
        return [fact.document_id for fact in found.results[:top_k]]

    def close(self) -> None:
        self.server.cleanup()


def _check_reachable() -> None:
    """Under root its PostgreSQL runs as another user, and would open every folder on the way: rather not
    /root.
    """
    if os.geteuid():
        return
    for folder in Path(sys.prefix).resolve().parents:
        if not folder.stat().st_mode & stat.S_IXOTH:
            raise PermissionError(
                f"its PostgreSQL does not run as root, and {folder} is closed to other users: "
                "set JIYI_BENCH_CACHE to a folder outside it, or run as an ordinary user"
            )


def make(given: dict[str, Any]) -> Adapter:
    return Hindsight(given)


if __name__ == "__main__":
    serve(make)
