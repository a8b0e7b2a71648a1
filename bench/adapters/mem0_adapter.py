"""mem0: ``add(infer=False)`` and ``search`` on its pgvector store with its defaults (HNSW)."""

from __future__ import annotations

import logging
import os
from typing import Any

from lines import Adapter, serve


class Mem0:
    def __init__(self, given: dict[str, Any]) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": given["folder"]}
        from mem0 import Memory

        logging.disable(logging.WARNING)
        openai = {"api_key": "none", "openai_base_url": given["embeddings_url"]}
        self.memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "pgvector",
                    "config": {
                        "connection_string": given["database_url"],
                        "collection_name": "bench",
                        "embedding_model_dims": given["dimensions"],
                    },
                },
                "embedder": {"provider": "openai", "config": {**openai, "model": given["model"]}},
                "llm": {"provider": "openai", "config": openai},  # never called
                "history_db_path": f"{given['folder']}/history.db",
            }
        )

    def remember(self, agent: str, memories: list[dict[str, str]]) -> None:
        for row in memories:
            self.memory.add(
                row["text"], user_id=agent, infer=False, metadata={"key": row["key"], "time": row["time"]}
            )  # one call a memory: several messages in a call would be embedded one by one all the same

    def ask(self, agent: str, question: str, top_k: int) -> list[str]:
        found = self.memory.search(question, top_k=top_k, filters={"user_id": agent}, threshold=0.0)
        return [row["metadata"]["key"] for row in found["results"]]

    def close(self) -> None:
        """Nothing outside."""


def make(given: dict[str, Any]) -> Adapter:
    return Mem0(given)


if __name__ == "__main__":
    serve(make)
