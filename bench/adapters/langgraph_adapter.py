"""LangGraph's PostgresStore: ``batch`` of puts and ``search`` with its defaults (HNSW, cosine); LangMem
builds on it.
"""

from __future__ import annotations

from typing import Any

from lines import Adapter, serve

BATCH = 50


class LangGraph:
    def __init__(self, given: dict[str, Any]) -> None:
        from langchain_core.embeddings import Embeddings
        from langgraph.store.postgres import PostgresStore
        from openai import OpenAI

        client = OpenAI(base_url=given["embeddings_url"], api_key="none")

        class Endpoint(Embeddings):  # type: ignore[misc, unused-ignore]
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                made = client.embeddings.create(model=given["model"], input=texts)
                return [row.embedding for row in made.data]

            def embed_query(self, text: str) -> list[float]:
                return self.embed_documents([text])[0]

        self.context = PostgresStore.from_conn_string(
            given["database_url"],
            index={"dims": given["dimensions"], "embed": Endpoint(), "fields": ["text"]},
        )
        self.store = self.context.__enter__()
        self.store.setup()

    def remember(self, agent: str, memories: list[dict[str, str]]) -> None:
        from langgraph.store.base import PutOp

        puts = [PutOp((agent,), row["key"], {"text": row["text"], "time": row["time"]}) for row in memories]
        for start in range(0, len(puts), BATCH):
            self.store.batch(puts[start : start + BATCH])

    def ask(self, agent: str, question: str, top_k: int) -> list[str]:
        return [item.key for item in self.store.search((agent,), query=question, limit=top_k)]

    def close(self) -> None:
        """Nothing outside."""


def make(given: dict[str, Any]) -> Adapter:
    return LangGraph(given)


if __name__ == "__main__":
    serve(make)
