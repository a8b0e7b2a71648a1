"""Looking into the service from outside: lists, states, counts. Answered by workers, like retrievals."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from jiyi.protocol.events import Name, NodeType
from jiyi.protocol.retrieval import all_storable
from jiyi.settings import get_settings

#: Celery queues of the calls over the broker: questions, and changes.
QUEUE, CHANGES = "inspection", "actions"
DEFAULT_PAGE = 50


def _within_page(limit: int) -> int:
    most = get_settings().max_page
    if limit > most:
        raise ValueError(f"{limit:,} is more than {most:,}; read page by page")
    return limit


PageSize = Annotated[int, Field(ge=1), AfterValidator(_within_page)]


class Request(BaseModel):
    """What an action or a question is asked with. Whose it is, is said beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _storable(self) -> Self:
        return all_storable(self)


class Query(Request):
    """A question that names its group."""

    group_id: Name


class EventStatesQuery(Query):
    """What became of these events?"""

    event_ids: Annotated[list[UUID], Field(min_length=1, max_length=1_000)]


class EventState(BaseModel):
    """``unknown``: not arrived yet. ``stored``: a node, not embedded yet. ``retrievable``, ``duplicate`` (of
    ``node_id``), ``applied`` (settings), ``erased`` and ``dead`` (with the reason) are final."""

    event_id: UUID
    state: Literal["unknown", "stored", "retrievable", "duplicate", "applied", "erased", "dead"]
    node_id: UUID | None = None
    reason: str = ""

    @property
    def final(self) -> bool:
        return self.state not in ("unknown", "stored")


class NodesQuery(Query):
    """One agent's nodes, newest first; ``before`` is the last page's smallest ``node_count``."""

    agent_id: Name
    types: list[NodeType] = ["event", "thought", "chat"]
    before: int | None = Field(None, ge=1)
    limit: PageSize = DEFAULT_PAGE


class KeywordsQuery(Query):
    """One agent's keyword strengths, strongest first; ``offset`` rows are skipped."""

    agent_id: Name
    offset: int = Field(0, ge=0, le=1_000_000)
    limit: PageSize = DEFAULT_PAGE


class RelatedQuery(Query):
    """Keyword retrieval (GA-47): events and thoughts that share a keyword with an event's triple."""

    agent_id: Name
    subject: Annotated[str, Field(max_length=500)] = ""
    predicate: Annotated[str, Field(max_length=500)] = ""
    object: Annotated[str, Field(max_length=500)] = ""
    limit: PageSize = DEFAULT_PAGE


class AgentsQuery(Query):
    """The group's agents in order of their names; ``after`` is the last page's last name."""

    after: str = ""
    limit: PageSize = DEFAULT_PAGE


class ExportQuery(Query):
    """Events as they came, in order of arrival, with what their nodes have been given since: vectors, importance."""

    agent_id: Name | None = None
    after: int | None = Field(None, ge=0)
    with_vectors: bool = False
    limit: PageSize = DEFAULT_PAGE


class RecallQuery(Query):
    """How much of the exact answer does a large agent's approximate search find? Asked with its own memories' texts."""

    agent_id: Name
    questions: int = Field(20, ge=1, le=200)
    top_k: int = Field(10, ge=1, le=100)


class StatsQuery(Query):
    """Counts of the group, and the state of the service."""


class LLMsQuery(Query):
    """The LLM in use, the vendors there are, and what the group has used in the last ``days``."""

    days: int = Field(30, ge=1, le=3_650)


class EmbeddersQuery(Query):
    """Which embedders there are, which is in use, how they fare, and how many memories each model has embedded."""


class DeadLettersQuery(Query):
    """Dead letters, newest first; those of no known group are shown to every group's operator."""

    state: Literal["open", "replayed", "discarded"] = "open"
    kind: Annotated[str, Field(max_length=100)] | None = None
    before: UUID | None = None
    limit: PageSize = DEFAULT_PAGE


class ResolveQuery(Query):
    """Replay or discard dead letters: those named, or all open ones of a kind. ``actor`` is who does it, for the audit log."""

    action: Literal["replay", "discard"]
    letter_ids: Annotated[list[UUID], Field(max_length=1_000)] = []
    kind: Annotated[str, Field(max_length=100)] | None = None
    actor: Name = "operator"


class Page(BaseModel):
    """One page of a list; ``next`` is what to pass on for the following one, None at the end."""

    rows: list[dict[str, Any]]
    next: Any = None
