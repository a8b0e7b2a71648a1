"""CrewAI on Jiyi: a ``Memory`` of a crew or of one of its agents (``docs/integrations.md``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from uuid import UUID

from crewai.memory.types import MemoryMatch, MemoryRecord, ScopeInfo
from crewai.memory.unified_memory import Memory
from pydantic import Field

from jiyi.client.client import Client
from jiyi.errors import InvalidRequest, NotFound
from jiyi.integrations.turns import REMEMBERED, parts
from jiyi.protocol import memory as protocol
from jiyi.protocol.base import JsonObject
from jiyi.protocol.limits import MAX_FOCAL_CHARS, MAX_TOP_K
from jiyi.text.prompting import quoted

#: The only scope there is.
ROOT = "/"
#: CrewAI's importance is 0 … 1, Jiyi's 1 … 10.
LEAST_IMPORTANCE, MOST_IMPORTANCE = 1.0, 10.0


class QuotedMatch(MemoryMatch):
    """A memory as it stands in a prompt: quoted, so that it orders nothing."""

    def format(self) -> str:
        return f"- (score={self.score:.2f}, {self.record.created_at:%Y-%m-%d}) {quoted(self.record.content)}"


class JiyiMemory(Memory):
    """``Crew(…, memory=JiyiMemory(client=client, agent_id="crew"))``, or ``Agent(…, memory=…)``. Raises as
    the client's methods do.

    Jiyi determines what a text is about and how important it is: no model and no embedder of the crew's
    is asked, and no file of its is written. Categories are keywords. Scopes are none: another ``agent_id`` is
    another memory.

    Args:
        client: its key needs ``publish`` and ``read``, and ``admin`` to forget.
        agent_id: the agent.
        user_id: the person for whom the crew works. Private memories are recalled for that person
        alone.
    """

    client: Any = Field(exclude=True, repr=False)
    agent_id: str
    user_id: str | None = None
    storage: Any = Field(default=None, exclude=True)

    def __deepcopy__(self, memo: Any = None) -> JiyiMemory:
        """Itself: a crew's copy has the same memory."""
        return self

    def model_post_init(self, _context: Any, /) -> None:
        """Raises :class:`TypeError` for a client of asyncio: CrewAI calls from its threads."""
        if not isinstance(self.client, Client):
            raise TypeError(f"client: must be a jiyi.Client, not {type(self.client).__name__}")

    def extract_memories(self, content: str) -> list[str]:
        """The text itself: the service says what is in it."""
        return list(parts(content))

    def remember(
        self,
        content: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: JsonObject | None = None,
        importance: float | None = None,
        source: str | None = None,
        **about: Any,
    ) -> MemoryRecord | None:
        """Keep a text, until it can be recalled. None if the memory is read-only, or the text blank."""
        ids = self._keep([content], True, scope, categories, metadata, importance, source, **about)
        if not ids:
            return None
        return MemoryRecord(
            id=str(ids[0]),
            content=content,
            categories=categories or [],
            metadata=metadata or {},
            source=source,
        )

    def remember_many(self, contents: list[str], *about: Any, **options: Any) -> list[MemoryRecord]:
        """Have texts kept, with the arguments of :meth:`remember`; returns at once."""
        self._keep(contents, False, *about, **options)
        return []

    def _keep(
        self,
        contents: list[str],
        wait: bool,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: JsonObject | None = None,
        importance: float | None = None,
        source: str | None = None,
        private: bool = False,
        agent_role: str | None = None,
        root_scope: str | None = None,
    ) -> list[UUID]:
        _refuse_scope(scope or root_scope)
        if private and self.user_id is None:
            raise InvalidRequest(["private: name the user: JiyiMemory(…, user_id=…)"])
        if self.read_only:
            return []
        origin = {"source": source, "role": agent_role}
        fields: dict[str, Any] = {
            "agent_id": self.agent_id,
            "user_id": self.user_id,
            "provenance": (metadata or {}) | {name: value for name, value in origin.items() if value},
        }
        if private:
            fields["visibility"] = "user"
        if categories:
            fields["keywords"] = categories
        if importance is not None:
            fields["poignancy"] = _poignancy(importance)
        observations = [{**fields, "description": part} for content in contents for part in parts(content)]
        return self.client.observe_many(observations, wait=wait) if observations else []

    def recall(
        self,
        query: str,
        scope: str | None = None,
        categories: list[str] | None = None,
        limit: int = 10,
        depth: str = "deep",
        source: str | None = None,
        include_private: bool = False,
    ) -> list[MemoryMatch]:
        """The best memories, most relevant first. Of long texts the end counts.

        ``depth``, ``source`` and ``include_private`` change nothing: there is one search, and what is
        visible depends on the user.
        """
        _refuse_scope(scope)
        query = query[-MAX_FOCAL_CHARS:]
        if not query.strip():
            return []
        filters = {"keywords": categories} if categories else {}
        answer = self.client.retrieve(
            self.agent_id, query, user_id=self.user_id, top_k=min(limit, MAX_TOP_K), filters=filters
        )
        return [
            QuotedMatch(record=_record(node), score=node.score, match_reasons=["retrieved"])
            for node in answer.retrieved_nodes
        ]

    def forget(
        self,
        scope: str | None = None,
        categories: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: JsonObject | None = None,
        record_ids: list[str] | None = None,
    ) -> int:
        """Have memories erased for good; how many. A time without a zone is UTC, as CrewAI's are."""
        _refuse_scope(scope)
        if metadata_filter:
            raise InvalidRequest(
                ["metadata_filter: memories are not found by metadata; give record_ids or categories"]
            )
        if older_than is not None and older_than.tzinfo is None:
            older_than = older_than.replace(tzinfo=UTC)
        target_ids = None if record_ids is None else set(record_ids)
        node_ids = [
            row.node_id
            for row in self._rows(created_before=older_than)
            if (target_ids is None or str(row.node_id) in target_ids)
            and (not categories or not set(categories).isdisjoint(row.keywords))
        ]
        for node_id in node_ids:
            with suppress(NotFound):  # what was derived from another one went with it
                self.client.delete(node_id)
        return len(node_ids)

    def update(
        self,
        record_id: str,
        content: str | None = None,
        scope: str | None = None,
        categories: list[str] | None = None,
        metadata: JsonObject | None = None,
        importance: float | None = None,
    ) -> MemoryRecord:
        """Correct a memory; the new version has its own id. Raises :class:`ValueError` if there is none."""
        _refuse_scope(scope)
        if metadata is not None:
            raise InvalidRequest(["metadata: says where a memory came from, and stays as it was"])
        try:
            if not self.read_only:
                changes: dict[str, Any] = {} if categories is None else {"keywords": categories}
                if importance is not None:
                    changes["importance"] = _poignancy(importance)
                record_id = str(self.client.update(record_id, content, wait=True, **changes))
            return _record(self.client.get(record_id, user_id=self.user_id))
        except NotFound as error:
            raise ValueError(f"Record not found: {error}") from error

    def list_records(self, scope: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """The memories, newest first."""
        _refuse_scope(scope)
        return [_record(row) for row in islice(self._rows(), offset, offset + limit)]

    def info(self, path: str | None = None) -> ScopeInfo:
        """How many memories there are, since when and until when."""
        _refuse_scope(path)
        rows = list(self._rows())
        newest, oldest = (rows[0].created_at, rows[-1].created_at) if rows else (None, None)
        return ScopeInfo(
            path=ROOT,
            record_count=len(rows),
            categories=sorted(_keywords(rows)),
            oldest_record=oldest,
            newest_record=newest,
        )

    def tree(self, path: str | None = None, max_depth: int = 3) -> str:
        """The one scope, with the number of its memories."""
        return f"{ROOT} ({self.info(path).record_count} records)"

    def list_scopes(self, path: str | None = None) -> list[str]:
        """None below the only one."""
        _refuse_scope(path)
        return []

    def list_categories(self, path: str | None = None) -> dict[str, int]:
        """The keywords, and how many memories have each."""
        _refuse_scope(path)
        return dict(_keywords(self._rows()))

    def scope(self, path: str) -> Any:
        """Itself for the only scope there is."""
        _refuse_scope(path)
        return self

    def slice(self, scopes: list[str], categories: list[str] | None = None, read_only: bool = True) -> Any:
        """Raises :class:`InvalidRequest`: there is nothing to take a slice of."""
        raise InvalidRequest(["scopes: Jiyi's memory has none; use another agent_id for another memory"])

    def reset(self, scope: str | None = None) -> None:
        """Have everything erased for good; of a memory with a user what is that user's."""
        _refuse_scope(scope)
        if self.user_id is None:
            self.client.erasure.request(agent_id=self.agent_id)
        else:
            self.forget()

    def reset_all(self) -> None:
        """The same."""
        self.reset()

    def _rows(self, **filters: Any) -> Iterator[protocol.Memory]:
        """Current memories, newest first; with a ``user_id`` only those of that user."""
        options = {name: value for name, value in filters.items() if value is not None}
        for row in self.client.list(self.agent_id, user_id=self.user_id, types=REMEMBERED, **options):
            if self.user_id is None or row.user_id == self.user_id:
                yield row


def _refuse_scope(scope: str | None) -> None:
    if scope not in (None, "", ROOT):
        raise InvalidRequest(
            [f"scope: {scope!r}: Jiyi's memory has none; use another agent_id for another memory"]
        )


def _poignancy(importance: float) -> float:
    return LEAST_IMPORTANCE + importance * (MOST_IMPORTANCE - LEAST_IMPORTANCE)


def _keywords(rows: Iterable[protocol.Memory]) -> Counter[str]:
    return Counter(keyword for row in rows for keyword in row.keywords)


def _record(memory: protocol.Memory) -> MemoryRecord:
    """A memory as CrewAI has it."""
    poignancy = memory.poignancy or LEAST_IMPORTANCE
    return MemoryRecord(
        id=str(memory.node_id),
        content=memory.description,
        categories=list(memory.keywords),
        metadata=memory.provenance,
        importance=(poignancy - LEAST_IMPORTANCE) / (MOST_IMPORTANCE - LEAST_IMPORTANCE),
        created_at=memory.created_at,
        last_accessed=memory.last_accessed or memory.created_at,
        source=str(memory.provenance.get("source") or "") or None,
        private=memory.visibility == "user",
    )
