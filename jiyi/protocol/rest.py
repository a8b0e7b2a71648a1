"""What travels over the REST API and not through the broker: bodies, queries and answers of ``/api/v1``.

The group is never part of them: it belongs to the key. Models of the other modules of :mod:`jiyi.protocol` are used as they are.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, RootModel, Tag, model_validator
from uuid6 import uuid7

from jiyi.protocol import events as wire
from jiyi.protocol.erasure import ErasureState
from jiyi.protocol.events import Configuration, Ending, Event, Execution, Keyword, Moment, Name, NodeType, Observation
from jiyi.protocol.operations import JobName
from jiyi.protocol.queries import DEFAULT_PAGE, EventState, PageSize
from jiyi.protocol.reflection import DEFAULT_DEPTH, DEFAULT_LIMIT, MAX_DEPTH, MAX_LIMIT
from jiyi.protocol.retrieval import FocalText, Question
from jiyi.settings import get_settings

#: Events whose states one GET may ask for: so many ids fit into a request line of 8 KiB.
MAX_STATES_GET = 200
#: Seconds that an answer may be waited for: a worker gives up after a minute.
MAX_TIMEOUT = 60.0
#: Characters that a text search may have.
MAX_SEARCH_CHARS = 500
MAX_CURSOR_CHARS = 1_000
#: What of a refused event is shown.
MAX_BODY_CHARS = 2_000

FOREIGN_GROUP = "group_id: not this key's group; leave it out, the key says which group it is"


# Problems


class FieldProblem(BaseModel):
    """One thing that is wrong with a request."""

    field: str = Field(description="Where: a path such as `events.3.payload.poignancy`, or empty for the whole.")
    message: str


class Problem(BaseModel):
    """RFC 9457: what went wrong, for programs (`type`, `status`, `errors`) and for people (`title`, `detail`)."""

    type: str = Field(description="Address of a page that explains this kind of problem.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="The path that was asked for.")
    errors: list[FieldProblem] = []


# Events


class _Envelope(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    event_id: UUID = Field(
        default_factory=uuid7,
        description="Your own id. The same event sent twice with the same id is stored once; without one it gets a new id.",
    )
    occurred_at: Moment = Field(
        default_factory=lambda: datetime.now(UTC), description="When it happened, with a time zone; now unless given."
    )
    agent_id: Name = Field(description="Whose memory. An agent exists from its first event on.")
    session_id: Name | None = Field(None, description="The conversation or run that it belongs to.")
    correlation_id: Name | None = Field(None, description="Any name of yours, to find what belongs together.")


class _TypedEvent(_Envelope):
    version: Literal[1] = 1
    group_id: Name | None = Field(None, description="Leave out: the key says which group it is.")

    def as_event(self, group_id: str) -> Event:
        """The event on the wire; raises ``ValueError`` if it names a foreign group."""
        if self.group_id not in (None, group_id):
            raise ValueError(FOREIGN_GROUP)
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        event: Event = _WIRE[fields["type"]].model_construct(**{**fields, "group_id": group_id})
        return event


class ObservedEvent(_TypedEvent):
    """`memory.observed`: an agent perceived, thought or said something; it becomes one memory."""

    type: Literal["memory.observed"]
    payload: Observation


class ConfiguredEvent(_TypedEvent):
    """`agent.configured`: settings of an agent that are given replace its own."""

    type: Literal["agent.configured"]
    payload: Configuration


class EndedEvent(_TypedEvent):
    """`session.ended`: a conversation is over; the agent reflects on it."""

    type: Literal["session.ended"]
    payload: Ending = Ending()

    @model_validator(mode="after")
    def _names_the_conversation(self) -> Self:
        if self.session_id is None and not self.payload.chat_ids:
            raise ValueError("session_id: required, unless payload.chat_ids names the chats")
        return self


class ExecutedEvent(_TypedEvent):
    """`node.executed`: a node of a workflow has put something out."""

    type: Literal["node.executed"]
    payload: Execution


class ShortEvent(Observation, _Envelope):
    """One observation, without envelope and payload: `{"agent_id": "klaus", "description": "Klaus reads a book"}`."""

    model_config = ConfigDict(frozen=True, extra="forbid", title="ShortEvent")

    def as_event(self, group_id: str) -> Event:
        """The event on the wire."""
        given = {name: getattr(self, name) for name in self.model_fields_set & Observation.model_fields.keys()}
        envelope = {name: getattr(self, name) for name in _Envelope.model_fields}
        payload = Observation.model_construct(**given)
        return wire.MemoryObserved.model_construct(**envelope, group_id=group_id, payload=payload)


_WIRE: dict[str, Any] = {cls.model_fields["type"].default: cls for cls in wire.EVENT_CLASSES}


def _form_of(value: Any) -> str | None:
    """Which of the forms it is; names with a dot, because those are left out of an error's path."""
    if not isinstance(value, dict):
        return None if isinstance(value, list) else getattr(value, "type", "short.form")
    if "type" in value:
        return str(value["type"])
    return "short.form"


AnyEvent = Annotated[
    Annotated[ObservedEvent, Tag("memory.observed")]
    | Annotated[ConfiguredEvent, Tag("agent.configured")]
    | Annotated[EndedEvent, Tag("session.ended")]
    | Annotated[ExecutedEvent, Tag("node.executed")]
    | Annotated[ShortEvent, Tag("short.form")],
    Discriminator(
        _form_of,
        custom_error_type="unknown_event",
        custom_error_message=f"must be an object whose type is one of {', '.join(wire.EVENT_TYPES)}, or one without type",
    ),
]


def _few_enough(events: list[Any]) -> list[Any]:
    limit = get_settings().max_events_per_message
    if len(events) > limit:
        raise ValueError(f"{len(events):,} events are more than {limit:,}; send them in several requests")
    return events


class EventList(BaseModel):
    """Several events, stored together or not at all, in this order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    events: Annotated[list[AnyEvent], Field(min_length=1), AfterValidator(_few_enough)]


class EventsBody(RootModel[Any]):
    """One event, or several as `{"events": […]}`."""

    root: Annotated[
        Annotated[EventList, Tag("several.events")] | Annotated[AnyEvent, Tag("one.event")],
        Discriminator(lambda value: "several.events" if isinstance(value, dict) and "events" in value else "one.event"),
    ]

    def as_events(self, group_id: str) -> list[Event]:
        if isinstance(self.root, EventList):
            return [event.as_event(group_id) for event in self.root.events]
        return [self.root.as_event(group_id)]


class Accepted(BaseModel):
    """The events are stored durably; embedding and the rest follows. `status_url` tells how far it is."""

    event_ids: list[UUID] = Field(description="In the order given. A memory has the id of its event.")
    accepted: int = Field(description="Events that were new.")
    repeated: int = Field(description="Events that were there already, by their ids; nothing was changed.")
    status_url: str


class StatesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: Annotated[list[UUID], Field(min_length=1, max_length=MAX_STATES_GET)] = Field(
        description=f"Ids of events, up to {MAX_STATES_GET}; given several times, or with commas between."
    )


class StatesBody(BaseModel):
    """Ids of events."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[UUID], Field(min_length=1, max_length=500)]


class EventStates(BaseModel):
    """One state an event, in the order asked."""

    events: list[EventState]


class StoredEvent(EventState):
    """An event as it came, and what became of it."""

    type: str
    agent_id: str
    session_id: str | None
    correlation_id: str | None
    occurred_at: datetime
    payload: dict[str, Any]


# Retrieval


class RetrieveBody(Question):
    """A question to one agent's memory."""

    focal_text: FocalText | None = Field(None, description="What the memories are to be about: a question, or what goes on now.")
    focal_texts: list[FocalText] = Field(default_factory=list, description="Several of them, answered one by one in one request.")
    timeout: float | None = Field(
        None, gt=0, le=MAX_TIMEOUT, description="Seconds to wait for the answer; the deployment's request time-out unless given."
    )

    @model_validator(mode="before")
    @classmethod
    def _one_or_many(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        one, many = given.get("focal_text"), given.get("focal_texts")
        if one is not None and many is not None:
            raise ValueError("focal_text: give either this or focal_texts")
        if one is None and many in (None, []):
            raise ValueError("focal_text: required, but missing: a text, or several as focal_texts")
        rest = {name: value for name, value in given.items() if name not in ("focal_text", "focal_texts")}
        return {**rest, "focal_texts": [one] if many is None else many}


# Memories


class Cursor(BaseModel):
    """Page by page."""

    model_config = ConfigDict(extra="forbid")

    after: Annotated[str, Field(max_length=MAX_CURSOR_CHARS)] = Field(
        "", description="`next` of the page before; leave out for the first page."
    )
    limit: PageSize = Field(DEFAULT_PAGE, description="Most rows of the page.")


class MemoriesQuery(Cursor):
    agent_id: Name | None = Field(None, description="Only this agent's memories.")
    type: list[NodeType] = Field([], description="Only these types: `event`, `thought`, `chat`.")
    q: Annotated[str, Field(max_length=MAX_SEARCH_CHARS)] = Field(
        "", description="Only memories with all of these words, or with this text in their description."
    )
    keyword: Keyword | None = Field(None, description="Only memories with this keyword.")
    session_id: Name | None = Field(None, description="Only memories of this session.")
    created_after: Moment | None = Field(None, description="Only what happened at this time or later.")
    created_before: Moment | None = Field(None, description="Only what happened before this time.")
    archived: Literal["without", "with", "only"] = Field("without", description="Whether archived memories are listed.")


class Memory(BaseModel):
    """One memory as it is listed."""

    node_id: UUID
    agent_id: str
    session_id: str | None
    type: NodeType
    node_count: int = Field(description="Its number within its agent, from 1.")
    depth: int = Field(description="Of a thought: how many levels of evidence it rests on.")
    created_at: datetime
    expires_at: datetime | None
    archived_at: datetime | None
    description: str
    keywords: list[str]
    poignancy: float | None = Field(description="Importance, 1 … 10; null while it is not known.")
    is_idle: bool
    embedding_model: str | None = Field(description="Null until the memory is embedded, which is when it can be retrieved.")


class MemoryDetail(Memory):
    """One memory with everything but its vector."""

    type_count: int
    stored_at: datetime
    last_accessed: datetime | None
    access_count: int | None
    subject: str | None
    predicate: str | None
    object: str | None
    embedding_key: str
    dimensions: int | None
    filling: list[Any] = Field(description="Ids of the memories it rests on, or of a conversation [speaker, text] pairs.")
    provenance: dict[str, Any]


class MemoryPage(BaseModel):
    """Newest first."""

    nodes: list[Memory]
    next: str | None = Field(description="Give it as `after` for the following page; null on the last one.")


class EvidenceQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    depth: int = Field(DEFAULT_DEPTH, ge=0, le=MAX_DEPTH, description="Levels of evidence.")
    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="Most memories, of all levels together.")


class KeywordsQuery(Cursor):
    agent_id: Name = Field(description="Whose keywords.")


class KeywordStrength(BaseModel):
    keyword: str
    memory_type: Literal["event", "thought"]
    strength: int = Field(description="How many memories of this type have it.")


class KeywordPage(BaseModel):
    """Strongest first."""

    keywords: list[KeywordStrength]
    next: str | None


class RelatedParameters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    agent_id: Name = Field(description="Whose memories.")
    subject: Annotated[str, Field(max_length=500)] = ""
    predicate: Annotated[str, Field(max_length=500)] = ""
    object: Annotated[str, Field(max_length=500)] = ""
    limit: PageSize = Field(DEFAULT_PAGE, description="Most memories of each type.")


class RelatedMemory(BaseModel):
    node_id: UUID
    agent_id: str
    session_id: str | None
    type: NodeType
    node_count: int
    depth: int
    created_at: datetime
    last_accessed: datetime
    expires_at: datetime | None
    archived_at: datetime | None
    subject: str | None
    predicate: str | None
    object: str | None
    description: str
    keywords: list[str]
    poignancy: float | None


class Related(BaseModel):
    """Newest first."""

    events: list[RelatedMemory]
    thoughts: list[RelatedMemory]


# Agents


class AgentState(BaseModel):
    """An agent, its own settings, and how near its next reflection is."""

    agent_id: str
    settings: dict[str, Any] = Field(description="Its own settings; what is not among them is the deployment's.")
    node_count: int = Field(description="Memories it ever had.")
    type_counts: dict[str, int]
    importance_trigger_curr: float = Field(description="Importance that is left until a reflection is owed.")
    importance_ele_n: int = Field(description="Events since the last reflection.")
    created_at: datetime


class AgentPage(BaseModel):
    """In order of their names."""

    agents: list[AgentState]
    next: str | None


class SessionEnd(BaseModel):
    """Whose conversation it was."""

    model_config = ConfigDict(extra="forbid")

    agent_id: Name = Field(description="The agent that is to reflect on the conversation.")
    partner: Name | None = Field(None, description="Only the chats with this partner.")
    chat_ids: Annotated[list[UUID], Field(max_length=500)] = Field([], description="Only these chats.")
    event_id: UUID = Field(default_factory=uuid7, description="Your own id: the same request sent twice counts once.")
    occurred_at: Moment = Field(default_factory=lambda: datetime.now(UTC))


# Reflections


class Asked(BaseModel):
    """A reflection is owed; `status_url` tells how far it is."""

    reflection_id: UUID
    status_url: str


class ReflectionsQuery(Cursor):
    agent_id: Name | None = Field(None, description="Only this agent's reflections.")
    state: Literal["owed", "running", "waiting", "done", "nothing", "given up"] | None = Field(
        None, description="Only reflections in this state."
    )


class ReflectionBrief(BaseModel):
    reflection_id: UUID
    agent_id: str
    trigger: Literal["importance", "schedule", "request", "conversation"]
    state: Literal["owed", "running", "waiting", "done", "nothing", "given up"]
    attempts: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    focal_points: list[str]
    thoughts: int
    llm: str | None
    error: str | None


class ReflectionPage(BaseModel):
    """Newest first."""

    reflections: list[ReflectionBrief]
    next: str | None


# Erasure


class ErasureAsked(BaseModel):
    """An erasure is owed; `status_url` tells how far it is."""

    erasure_id: UUID
    status_url: str


class ErasurePage(BaseModel):
    """Newest first."""

    erasures: list[ErasureState]
    next: str | None


# The service


class GroupStats(BaseModel):
    """Counts of the key's group."""

    agents: int
    events: int
    nodes: int
    event_nodes: int
    thought_nodes: int
    chat_nodes: int
    not_embedded: int
    idle: int
    archived: int
    dead_letters: int = Field(description="Open ones.")


class WorkOwed(BaseModel):
    kind: str
    owed: int
    overdue: int
    retried: int
    oldest: datetime


class Stats(BaseModel):
    """What the group has, and what work it waits for."""

    group_id: str
    counts: GroupStats
    work_owed: list[WorkOwed]


class QueueState(BaseModel):
    queue: str
    waiting: int | None = Field(description="Messages; null where it is not known.")


class Queues(BaseModel):
    """How full the service's queues are. They are shared by all groups."""

    queues: list[QueueState]
    in_flight: dict[str, int] | None = Field(description="Messages in the hands of the intake and of the workers.")
    note: str = Field("", description="Why something is not known.")


class LettersQuery(Cursor):
    state: Literal["open", "replayed", "discarded"] = "open"
    kind: Annotated[str, Field(max_length=100)] | None = Field(None, description="`intake` for refused events, else the kind of work.")


class Letter(BaseModel):
    """What could not be done, with the reason."""

    letter_id: UUID
    kind: str
    subject_id: UUID | None
    reason: str
    traceback: str | None
    body: str | None = Field(description=f"The refused event as it came, cut to {MAX_BODY_CHARS:,} characters.")
    attempts: int
    state: Literal["open", "replayed", "discarded"]
    created_at: datetime


class LetterPage(BaseModel):
    """Newest first."""

    letters: list[Letter]
    next: str | None


class ResolveBody(BaseModel):
    """Which dead letters: those named, or up to 1,000 open ones of a kind."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["replay", "discard"]
    letter_ids: Annotated[list[UUID], Field(max_length=1_000)] = []
    kind: Annotated[str, Field(max_length=100)] | None = None

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        if bool(self.letter_ids) == (self.kind is not None):
            raise ValueError("letter_ids: give either these or kind")
        return self


class Resolved(BaseModel):
    resolved: int = Field(description="Letters that were closed.")
    refused_again: int = Field(description="Replayed events that are still wrong; each has a new letter.")


class JobState(BaseModel):
    """A scheduled job with its last run and its next one."""

    job: str
    purpose: str
    schedule: str
    every_seconds: float | None
    setting: str
    last: dict[str, Any] | None
    next: datetime | None
    lag_seconds: float | None


class Schedules(BaseModel):
    jobs: list[JobState]


class RunBody(BaseModel):
    """How to run it."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = Field(False, description="Only tell what it would do.")
    whole_service: bool = Field(True, description="For all groups, not only the one that is spoken for.")


class JobRun(BaseModel):
    """A run that has begun, or what a dry one found."""

    job: JobName
    slot: datetime
    state: str = "waiting"
    seconds: float | None = None
    summary: dict[str, Any] = {}
