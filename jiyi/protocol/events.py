"""The events that agent programs publish, one model a type, with the payload of each. ``docs/events.md``
shows every type.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, get_args
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from uuid6 import uuid7

from jiyi.chat.secrets import masked
from jiyi.errors import InvalidEvent, problems_of
from jiyi.protocol import limits
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.artifacts import Vote
from jiyi.protocol.base import (
    MAX_NAME_CHARS,
    NOT_BLANK,
    POIGNANCY,
    Description,
    Flag,
    Fraction,
    JsonMapping,
    Keywords,
    Metadata,
    Moment,
    Name,
    NodeType,
    Part,
    Poignancy,
    Role,
    UserId,
    Visibility,
    unstorable_texts,
)
from jiyi.protocol.conversations import MAX_URI_CHARS, Kind, parse_uri
from jiyi.protocol.origins import ORIGIN_DESCRIPTION, ORIGIN_OF_ROLE, TRUST, Claimed, Trust
from jiyi.protocol.trajectories import StepType, summary
from jiyi.protocol.wire.vectors import Vector
from jiyi.text.kept import to_keep

CONTENT_TYPE = "application/json"
MAX_UTTERANCE_CHARS = 20_000
#: A workflow node's output may be a whole document; what is promoted of it is split.
MAX_OUTPUT_CHARS = 100_000
MAX_FLAGS = 20
#: Calls within calls that an output may come from.
MAX_DEPTH = 1_000_000
#: A step's input and output may be so long in an event; a summary of each is kept.
MAX_STEP_CHARS = 20_000
MAX_STEPS, MAX_TOKENS, MAX_MS = 1_000_000, 100_000_000, 1_000_000_000
#: Characters of a memory in three to five keywords, and in one or two sentences.
MAX_ABSTRACT_CHARS, MAX_OVERVIEW_CHARS = 500, 2_000
#: Latest events that a new one may be compared with: the original's are 5 to 8.
MAX_RETENTION = 100


Spoken = Annotated[str, Field(max_length=MAX_UTTERANCE_CHARS), AfterValidator(masked)]
Utterance = tuple[Annotated[str, Field(max_length=MAX_NAME_CHARS)], Spoken]


def refuse_anothers_address(agent_id: str, uri: str | None) -> None:
    """Raises :class:`ValueError` for an address of another agent."""
    if uri is not None and parse_uri(uri).agent_id != agent_id:
        raise ValueError(f"uri: {uri!r} is an address of another agent than {agent_id!r}")


class Observation(BaseModel, frozen=True, extra="ignore", use_attribute_docstrings=True):
    """What was perceived, thought or said: the payload of ``memory.observed``.

    ``evidence`` and ``utterances`` are one field in the original, ``filling``. ``historic`` memories were
    counted where they come from: they do not count towards a reflection (imports).
    """

    node_type: NodeType = "event"
    """What it is: an `event` that was perceived, a `thought`, or a `chat` (a whole conversation)."""
    description: Description
    """What happened, in one statement that says who did what, in any language."""
    embedding_key: Description | None = None
    """The text to be found by, if not the description."""
    subject: Part | None = Field(None, description="Who or what the statement is about.")
    predicate: Part | None = Field(None, description="What is said of the subject: a verb, as a rule.")
    object: Part | None = Field(None, description="Whom or what it concerns.")
    keywords: Keywords | None = None
    """Words to be found by; taken from the triple or the description unless given."""
    poignancy: Poignancy | None = Field(None, validation_alias=POIGNANCY)
    """How much it matters: 1 mundane … 10 poignant. Found out by the service unless given."""
    evidence: Annotated[list[UUID], Field(fail_fast=True, max_length=limits.MAX_EVIDENCE)] = []
    """Ids of the memories that a thought rests on."""
    utterances: Annotated[list[Utterance], Field(fail_fast=True, max_length=limits.MAX_EVIDENCE)] = []
    """What was said in a conversation: [speaker, text] pairs, in order."""
    retention: int | None = Field(None, ge=1, le=MAX_RETENTION)
    """Leave it out if it equals, in its triple, one of the agent's latest so many events."""
    expires_at: Moment | None = Field(None, description="When it is no longer to be remembered.")
    historic: bool = Field(False, description="Imported: does not count towards the next reflection.")
    vector: Vector | None = Field(None, description="A vector of one's own; needs embedding_model.")
    embedding_model: Name | None = Field(None, description="The model that made the vector.")
    provenance: Metadata = {}
    """Where it comes from: any small JSON object."""
    kind: Kind | None = None
    """Of what is remembered of conversations: `preference`, `knowledge`, `experience` or `session`. Needs
    uri."""
    uri: Annotated[str, Field(max_length=MAX_URI_CHARS)] | None = None
    """Its address, `agent://{agent}/{kind}/{category}`: the same content is stored there once. Needs kind."""
    abstract: Annotated[str, Field(max_length=MAX_ABSTRACT_CHARS), AfterValidator(masked)] | None = None
    """It in three to five keywords."""
    overview: Annotated[str, Field(max_length=MAX_OVERVIEW_CHARS), AfterValidator(masked)] | None = None
    """It in one or two sentences."""
    user_id: UserId | None = None
    """Which of the people whom the agent talks with it comes from; only they see it."""
    visibility: Visibility | None = None
    """Visibility: `user` (only the user, the default) or `agent` (all users of the agent). Needs user_id."""
    origin: Claimed | None = Field(None, description=ORIGIN_DESCRIPTION)
    trust: Trust | None = None
    """How far it is to be trusted, if less than its origin is: 0 … 1."""

    @model_validator(mode="after")  # one for all rules: each takes as long to be called as to look
    def _fields_go_together(self) -> Self:
        if (self.kind is None) != (self.uri is None):
            raise ValueError("kind and uri belong together: give both or neither")
        if self.uri is not None and parse_uri(self.uri).kind != self.kind:
            raise ValueError(f"uri: {self.uri!r} is no address of the kind {self.kind}")
        if (self.vector is None) != (self.embedding_model is None):
            raise ValueError("vector and embedding_model belong together: give both or neither")
        if self.visibility is not None and self.user_id is None:
            raise ValueError(
                "visibility: says who beside a user sees it: give user_id with it, or leave it out"
            )
        if self.retention is not None and not (self.subject and self.predicate and self.object):
            raise ValueError("retention compares subject, predicate and object: give all three with it")
        return self


class ImportedCounters(BaseModel, frozen=True, extra="forbid"):
    """Reflection counters that an import continues."""

    importance_trigger_curr: float = Field(ge=-1_000_000, le=1_000_000)
    importance_ele_n: int = Field(ge=0, le=1_000_000_000)


class Configuration(AgentSettings):
    """The payload of ``agent.configured``: fields that are given replace the agent's own."""

    counters: ImportedCounters | None = None


class Ending(BaseModel, frozen=True, extra="ignore"):
    """Which conversation: all chats of the event's session, those with ``partner`` only, or those named."""

    user_id: UserId | None = Field(None, description="With which user of the agent; a session is one user's.")
    partner: Name | None = None
    chat_ids: Annotated[list[UUID], Field(fail_fast=True, max_length=limits.MAX_EVIDENCE)] = []


def require_conversation(session_id: str | None, ending: Ending) -> None:
    """Raises :class:`ValueError` if nothing says which conversation has ended."""
    if session_id is None and not ending.chat_ids:
        raise ValueError("session_id: required, unless payload.chat_ids names the chats")


class Execution(BaseModel, frozen=True, extra="ignore"):
    """What a node of a workflow put out: the payload of ``node.executed``. ``metadata`` is the node's own,
    ``provenance`` the publisher's; ``flags`` are set by the fact check or the guard against loops.
    """

    node_id: Name
    node_type: Name | None = None
    node_name: Name | None = None
    output: Annotated[str, Field(pattern=NOT_BLANK, max_length=MAX_OUTPUT_CHARS)]
    confidence: Fraction | None = None
    flags: Annotated[list[Flag], Field(max_length=MAX_FLAGS)] = []
    depth: int = Field(0, ge=0, le=MAX_DEPTH)
    metadata: Metadata = {}
    provenance: Metadata = {}


class Turn(BaseModel, frozen=True, extra="ignore"):
    """One message of a conversation: the payload of ``turn.recorded``."""

    role: Role
    text: Description
    name: Name | None = None
    user_id: UserId | None = Field(None, description="In whose conversation with the agent it was said.")
    origin: Claimed | None = Field(
        None,
        description=(
            "If it is less the speaker's own than the role says: a `document` that a user hands over."
        ),
    )
    provenance: Metadata = {}

    @model_validator(mode="after")
    def _keeps_what_may_be_kept(self) -> Self:
        if (
            self.role in ("user", "assistant")
            and (text := to_keep(self.text, assistant=self.role == "assistant")) != self.text
        ):
            object.__setattr__(self, "text", text)  # frozen, and not yet anybody's
        return self

    @model_validator(mode="after")
    def _claims_no_more_than_its_role(self) -> Self:
        if self.origin is not None and TRUST[self.origin] > TRUST[ORIGIN_OF_ROLE[self.role]]:
            raise ValueError(
                f"origin: what is said in the role {self.role} cannot come from {self.origin}: leave it out,"
                " or claim less"
            )
        return self


StepSummary = Annotated[str, Field(max_length=MAX_STEP_CHARS), AfterValidator(summary)]


class StepTaken(BaseModel, frozen=True, extra="ignore", use_attribute_docstrings=True):
    """One step on the way to an answer: the payload of ``turn.step``.

    ``input`` and ``output`` are kept as summaries of at most 200 characters, with their secrets masked.
    """

    index: int = Field(ge=0, le=MAX_STEPS)
    """Its number in the session, from 0. Steps are put in this order, whenever they come."""
    step_type: StepType
    """A request, a retrieval, a skill in the prompt, a tool's call or result, or a generated text."""
    tool: Name | None = Field(None, description="Which tool; needed for tool_call and tool_result.")
    input: StepSummary = Field("", description="What it got.")
    output: StepSummary = Field("", description="What it gave.")
    ok: bool | None = Field(None, description="Whether it worked, where that is known.")
    tokens: int | None = Field(None, ge=0, le=MAX_TOKENS)
    """Tokens that it took; estimated unless given."""
    ms: int | None = Field(None, ge=0, le=MAX_MS, description="Milliseconds that it took.")
    compacted: bool = False
    """Before this step the conversation was compacted: what came before is compressed at once."""

    @model_validator(mode="after")
    def _tool_has_a_name(self) -> Self:
        if self.step_type in ("tool_call", "tool_result") and self.tool is None:
            raise ValueError(f"tool: required for a {self.step_type}: say which tool")
        return self


#: (event_id, group_id).
EventKey = tuple[UUID, str]


def _in_the_payload(value: object) -> None:
    if value is not None:
        raise ValueError("belongs inside payload; beside it, it would have no effect")


OfThePayload = SkipJsonSchema[
    Annotated[None, BeforeValidator(_in_the_payload), Field(exclude=True, repr=False)]
]


#: Fields of payloads. If they were ignored beside a payload, as unknown fields are, the memory would be
#: visible to more people.
ONLY_IN_PAYLOAD = frozenset({"user_id", "visibility", "origin", "trust"})


class _Event(BaseModel, frozen=True, extra="ignore"):
    user_id: OfThePayload = None
    visibility: OfThePayload = None
    origin: OfThePayload = None
    trust: OfThePayload = None
    event_id: UUID = Field(default_factory=uuid7)
    version: Literal[1] = 1
    occurred_at: Moment = Field(default_factory=lambda: datetime.now(UTC))
    group_id: Name
    agent_id: Name
    session_id: Name | None = None
    correlation_id: Name | None = None

    @property
    def key(self) -> EventKey:
        """What it is known by: its id is unique in its group only, because ids are their senders' choice."""
        return self.event_id, self.group_id


class MemoryObserved(_Event):
    """An agent perceived, thought or said something; it becomes one memory."""

    type: Literal["memory.observed"] = "memory.observed"
    payload: Observation

    @model_validator(mode="after")
    def _address_is_the_agents(self) -> Self:
        refuse_anothers_address(self.agent_id, self.payload.uri)
        return self


class AgentConfigured(_Event):
    """Somebody changed an agent's settings."""

    type: Literal["agent.configured"] = "agent.configured"
    payload: Configuration


class SessionEnded(_Event):
    """An agent's conversation is over: what of it is worth remembering? (chat end)"""

    type: Literal["session.ended"] = "session.ended"
    payload: Ending = Ending()

    @model_validator(mode="after")
    def _names_the_conversation(self) -> Self:
        require_conversation(self.session_id, self.payload)
        return self


class NodeExecuted(_Event):
    """A node of a workflow put something out; it goes into quarantine, and perhaps into working memory."""

    type: Literal["node.executed"] = "node.executed"
    payload: Execution


class TurnRecorded(_Event):
    """Somebody said something in a conversation with the agent; it is kept, and its statements extracted."""

    type: Literal["turn.recorded"] = "turn.recorded"
    session_id: Name = Field(description="Which conversation it is.")
    payload: Turn


class StepRecorded(_Event):
    """A step on the way to an answer was taken; a session's steps become its trajectory."""

    type: Literal["turn.step"] = "turn.step"
    session_id: Name = Field(description="Which conversation it is.")
    payload: StepTaken


class FeedbackGiven(_Event):
    """Somebody voted on a skill or a workflow; its trust is computed again."""

    type: Literal["feedback.given"] = "feedback.given"
    payload: Vote


#: Every event type there is. A new one is added here, in ``docs/events.md`` and in the intake.
Event = (
    MemoryObserved
    | AgentConfigured
    | SessionEnded
    | NodeExecuted
    | TurnRecorded
    | StepRecorded
    | FeedbackGiven
)
EVENT_CLASSES: tuple[type[_Event], ...] = get_args(Event)
EVENT_TYPES = tuple(cls.model_fields["type"].default for cls in EVENT_CLASSES)
_PAYLOADS: tuple[Any, ...] = tuple(cls.model_fields["payload"].annotation for cls in EVENT_CLASSES)
#: Names of the fields of all events and their payloads: these are ours, not the sender's.
FIELD_NAMES = frozenset(
    name for cls in (*EVENT_CLASSES, *_PAYLOADS, ImportedCounters) for name in cls.model_fields
)

#: Reads and writes one event.
#: pydantic keeps 16,384 short strings of the JSON that it reads, and what is erased would stay among them.
#: Names of fields come again; ids and what was said do not.
KEEPS_NO_VALUES = ConfigDict(cache_strings="keys")

ONE: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")], config=KEEPS_NO_VALUES)


def made(kind: str, name: tuple[str, str], at: datetime, payload: JsonMapping, **envelope: Any) -> Event:
    """:func:`build` of an event of ``name`` (group, agent) that happened ``at`` a time."""
    where = {"type": kind, "group_id": name[0], "agent_id": name[1], "occurred_at": at}
    return build({**where, **envelope, "payload": payload})


def build(event: JsonMapping) -> Event:
    """A validated event from plain data; raises :class:`InvalidEvent` with a sentence per wrong field."""
    try:
        built = ONE.validate_python(event)
    except ValidationError as error:
        raise InvalidEvent(problems_of(error, Event)) from None
    if problems := unstorable_texts(built):
        raise InvalidEvent(problems)
    return built
