"""Conversations: their messages, what is extracted from them, memories' addresses, compaction, and what is
injected into a prompt.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal, NamedTuple, Self, get_args
from urllib.parse import unquote
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, model_validator

from jiyi.chat.secrets import masked
from jiyi.protocol.base import AS_OF_DESCRIPTION, AsOf, ForUser, Name, Request, Role
from jiyi.protocol.origins import BySource
from jiyi.zones import TZ_DESCRIPTION, TimeZone

#: What a node of a conversation is: NULL in the database for memories of any other origin.
Kind = Literal["preference", "knowledge", "experience", "session"]
#: Kinds in the order in which lists and injected context show them.
KINDS: tuple[Kind, ...] = ("preference", "knowledge", "experience", "session")
#: ``memory``: all that was not taken from conversations.
AnyKind = Literal["memory", Kind]
#: What questions and lists are about unless they say otherwise: not the turns themselves, which repeat what
#: was taken from them.
CONTEXT_KINDS: tuple[AnyKind, ...] = ("memory", "preference", "knowledge", "experience")
KINDS_DESCRIPTION = (
    "Of these kinds: `memory` is what was observed, the others were taken from conversations; `session` are"
    " their turns: retrieval has them only if asked, `context` has people's."
)
Kinds = Annotated[list[AnyKind], Field(min_length=1, fail_fast=True)]
#: The commands' own categories.
Category = Literal["user_preference", "user_fact", "agent_lesson", "agent_pattern", "task"]
Outcome = Literal["success", "partial", "failed"]
#: From worst to best: of two experiences of the same problem the better outcome is kept.
OUTCOMES: tuple[Outcome, ...] = ("failed", "partial", "success")
Style = Literal["concise", "detailed", "formal", "casual"]
Intent = Literal["preference", "knowledge", "experience", "code", "general", "identity_recall"]

#: Characters of any one text that is extracted: a sentence or two.
MAX_CONTENT_CHARS = 1_000
MAX_WORD_CHARS = 200
#: Characters of a text whose tokens are counted.
MAX_TEXT_CHARS = 1_000_000
#: Messages of one request.
MAX_MESSAGES = 1_000
MAX_KEYWORDS = 8
#: Memories and experiences that one run may extract: the first ones count.
MAX_MEMORIES, MAX_EXPERIENCES = 100, 20
MAX_STEPS = 20
#: Entries of each list of a profile.
PROFILE_ENTRIES = 10

Content = Annotated[str, Field(pattern=r"\S", max_length=MAX_CONTENT_CHARS), AfterValidator(masked)]
Word = Annotated[str, Field(pattern=r"\S", max_length=MAX_WORD_CHARS)]


class Message(BaseModel, frozen=True, extra="ignore"):
    """One message of a conversation."""

    role: Role
    text: str
    #: Who speaks, where several people or agents do.
    name: str | None = None
    #: When it was said; what is relative in it (yesterday, 下周三) is read from here.
    at: AwareDatetime | None = None


class ExtractedMemory(BaseModel):
    """A preference or a fact in the messages; its ``content`` is understood without them.

    ``subject``: whom it is about (``user``, or a name); ``attribute``: what is said of them, of a fixed list
    (``home``, ``job``, ``diet:spicy``). Of a ``single_valued`` one the latest content supersedes the older;
    others are lists.
    """

    content: Content
    type: Literal["preference", "knowledge"] = "knowledge"
    category: Category = "user_fact"
    keywords: list[Word] = Field([], max_length=MAX_KEYWORDS)
    #: 1 mundane … 10 vital.
    importance: float = Field(5, ge=1, le=10)
    subject: Word = "user"
    attribute: Word | None = None
    single_valued: bool = False
    #: Numbers of the messages that it rests on, from 0.
    turns: list[int] = Field(min_length=1)
    #: Numbers of the known facts that it says are no longer so, from 0.
    supersedes: list[int] = []
    #: Numbers of those by which something newer was said, so that they may have ended: they are shown as
    #: earlier.
    may_end: list[int] = []
    #: It only says that what it supersedes is over (我不养猫了), and is itself kept as what holds now.
    negative: bool = False


class ExtractedExperience(BaseModel):
    """A problem, what was done about it and how that ended."""

    pain_pattern: Content
    context: str = Field("", max_length=MAX_CONTENT_CHARS)
    solution_steps: list[Content] = Field(max_length=MAX_STEPS)
    outcome: Outcome
    #: 0 … 1.
    confidence: float = Field(ge=0, le=1)
    tools_used: list[Word] = Field([], max_length=PROFILE_ENTRIES)
    industry_context: Word | None = None
    #: Numbers of the messages that it rests on, from 0.
    turns: list[int] = Field(min_length=1)


class ProfileSignals(BaseModel):
    """What the messages say about the user in general; None and empty where they say nothing."""

    industry: Word | None = None
    role: Word | None = None
    expertise_level: Word | None = None
    communication_style: Style | None = None
    recent_topics: list[Word] = Field([], max_length=PROFILE_ENTRIES)
    pain_points: list[Content] = Field([], max_length=PROFILE_ENTRIES)
    preferred_tools: list[Word] = Field([], max_length=PROFILE_ENTRIES)


class Profile(BaseModel):
    """What is known about a user; lists hold up to ten entries, newest first, each once."""

    industry: str | None = None
    role: str | None = None
    expertise_level: str | None = None
    communication_style: str | None = None
    recent_topics: list[str] = []
    pain_points: list[str] = []
    preferred_tools: list[str] = []
    updated_at: datetime | None = None


class CombinedExtraction(BaseModel):
    """All that one run takes from a conversation."""

    memories: list[ExtractedMemory] = Field([], max_length=MAX_MEMORIES)
    experiences: list[ExtractedExperience] = Field([], max_length=MAX_EXPERIENCES)
    profile_signals: ProfileSignals = ProfileSignals()


def said_at(messages: list[Message]) -> datetime | None:
    """When the last message with a time was said."""
    return next((message.at for message in reversed(messages) if message.at is not None), None)


SCHEME = "agent://"
#: Characters: two names, escaped, and some words.
MAX_URI_CHARS = 1_000
#: What would end a segment, or could not be seen: escaped.
_SPECIAL = re.compile(r"[%/?#\\\s\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class MemoryUri(NamedTuple):
    """The parts of an address; ``kind`` is None for all of an agent's."""

    agent_id: str
    kind: Kind | None
    path: tuple[str, ...]


def uri_of(agent_id: str, kind: str | None = None, *path: str) -> str:
    """The address of an agent's memories, of those of a kind, or of those under a path."""
    segments = [agent_id, *([] if kind is None else [kind]), *path]
    return SCHEME + "/".join(map(_escaped, segments))


def parse_uri(uri: str) -> MemoryUri:
    """The parts of an address. Raises ValueError, which says what is wrong and how it should look."""
    if not uri.startswith(SCHEME) or len(uri) > MAX_URI_CHARS:
        raise ValueError(
            f"{uri[:80]!r} is no address: it begins with {SCHEME} and has at most {MAX_URI_CHARS:,}"
            " characters"
        )
    segments = uri.removeprefix(SCHEME).removesuffix("/").split("/")
    if any(
        segment in ("", ".", "..") or re.search(r"[?#\\\s\x00-\x1f\x7f]", segment) or _ESCAPE.search(segment)
        for segment in segments
    ):
        raise ValueError(
            f"{uri[:80]!r} is no address: use {SCHEME}agent/kind/category; escape / as %2F, no segment may be"
            " empty, . or .."
        )
    agent_id, *rest = map(unquote, segments)
    if not agent_id.strip():
        raise ValueError(f"{uri[:80]!r} is no address: the agent is blank")
    if rest and rest[0] not in get_args(Kind):
        raise ValueError(f"{uri[:80]!r}: the kind {rest[0]!r} is none of {', '.join(get_args(Kind))}")
    return MemoryUri(agent_id, rest[0] if rest else None, tuple(rest[1:]))  # type: ignore[arg-type]


def _escaped(segment: str) -> str:
    if segment in (".", ".."):
        return segment.replace(".", "%2E")
    return _SPECIAL.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), segment)


Urgency = Literal["none", "soft", "hard"]


class ChatMessage(BaseModel, extra="allow", frozen=True):
    """A message as chat APIs have them; fields that are not named here stay as they are."""

    role: str = Field(pattern=r"\S", max_length=50)
    content: str | None = None
    #: Of an assistant's message that calls tools, and of a tool's answer.
    tool_calls: Annotated[list[dict[str, object]], Field(fail_fast=True)] | None = None
    tool_call_id: str | None = None


class CompactionLimits(BaseModel, frozen=True, extra="forbid"):
    """When a conversation is compacted, and what stays; in tokens, messages and seconds."""

    soft_tokens: int = Field(15_000, ge=100, le=10_000_000)
    hard_tokens: int = Field(20_000, ge=100, le=10_000_000)
    #: Of the hard limit this is left for the answer.
    reserve_tokens: int = Field(4_000, ge=0, le=1_000_000)
    keep_recent: int = Field(6, ge=1, le=1_000)
    cooldown_seconds: float = Field(30, ge=0, le=86_400)
    min_new_messages: int = Field(6, ge=0, le=1_000)
    summary_max_tokens: int = Field(1_000, ge=50, le=100_000)


class EstimateTokens(Request):
    """A text, or the messages of a conversation."""

    content: str | None = Field(None, max_length=MAX_TEXT_CHARS)
    messages: Annotated[list[ChatMessage], Field(max_length=MAX_MESSAGES)] | None = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.content is None) == (self.messages is None):
            raise ValueError("content: give either this or messages")
        return self


class CheckThreshold(Request):
    messages: Annotated[list[ChatMessage], Field(max_length=MAX_MESSAGES)]
    limits: CompactionLimits = CompactionLimits()


class Threshold(BaseModel):
    """How long a conversation is, and whether that is too long."""

    tokens: int
    urgency: Urgency


class CompactMessages(CheckThreshold):
    """A conversation to be compacted, with the summary of what was left out of it before."""

    previous_summary: str = Field("", max_length=100_000)
    force: bool = False


class Compacted(BaseModel):
    """The conversation that is left, beginning with its summary; as it was if it is not too long."""

    messages: list[ChatMessage]
    summary: str
    tokens_before: int
    tokens_after: int
    mode: Literal["none", "rules", "llm"]
    #: Messages that are in the summary only.
    summarised: int = 0


Format = Literal["markdown", "compact", "json", "template"]
#: Formats in which files, skills and what a group knows may stand beside memories.
PROSE: tuple[Format, ...] = ("markdown", "compact")

#: Tokens of an injection, by default and at most.
BUDGET, MAX_BUDGET = 2_000, 100_000
#: Characters of a prompt of one's own, and of what the user says (more is not looked at).
MAX_PROMPT_CHARS, MAX_INPUT_CHARS = 1_000_000, 400_000
MAX_TEMPLATE_CHARS = 20_000
#: Messages of a user in one session.
MAX_TURN = 100_000


class ContextRequest(Request, ForUser, BySource, use_attribute_docstrings=True):
    """What of the agent's memory belongs before the answer to a query?

    `origins` and `min_trust` are of memories: profile, identity files and skills have none.
    """

    agent_id: Name
    query: str = Field(max_length=MAX_INPUT_CHARS, description="What the user says.")
    max_tokens: int = Field(BUDGET, ge=1, le=MAX_BUDGET)
    """Most tokens of the context, its headings included. With `split`: of the stable part and what is
    recalled for this message; with what was recalled for earlier ones at most three times as many."""
    format: Format = "markdown"
    template: str | None = Field(None, max_length=MAX_TEMPLATE_CHARS)
    """For the format `template`: a text with {{preferences}}, {{knowledge}}, {{experience}}, {{session}},
    {{profile}}."""
    session_id: Name | None = None
    """The conversation that goes on: its own turns are not repeated."""
    now: AwareDatetime | None = Field(None, description="The agent's present, if it lives in simulated time.")
    tz: TimeZone | None = Field(None, description=TZ_DESCRIPTION)
    as_of: AsOf | None = Field(
        None,
        description=(
            f"{AS_OF_DESCRIPTION} Of memories: profile, identity files and skills are left out. Nothing is"
            " noted."
        ),
    )
    note: bool = Field(True, description="Whether it is noted what was injected, and why.")
    grown: bool = True
    """Whether the agent's approved identity files and enabled skills belong to it."""
    tiers: bool = False
    """Whether what the whole group knows (working and long-term memory) belongs to it, in a quarter of the
    budget."""
    split: bool = False
    """Whether what stays the same through the session (`stable`: identity, skills, profile, preferences)
    is kept apart from what is recalled for this message, so that a provider's prompt cache can keep it."""
    turn: int | None = Field(None, ge=1, le=MAX_TURN)
    """With `split` and `session_id`: the number of this message among the user's. What was recalled for
    earlier ones stays with them, comes back as `earlier`, and is not recalled again."""
    base_prompt: str | None = Field(None, max_length=MAX_PROMPT_CHARS)
    """The prompt that it goes into: the answer's `prompt` is this one with the context."""
    renew: bool = False
    """With `split`: build the session's stable part again, since the conversation was compacted."""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.as_of is not None and (self.split or self.tiers):
            raise ValueError("as_of: a session's prompt and the tiers are of now; leave split and tiers out")
        if self.tiers and self.format not in PROSE:
            raise ValueError(f"tiers: only with the formats {' and '.join(PROSE)}")
        return self


class RecalledEarlier(BaseModel):
    """What was recalled for an earlier message of the session, and stands before that message."""

    turn: int
    text: str


class InjectedSkill(BaseModel):
    """An enabled skill whose text is in the prompt, because the message fits it."""

    id: UUID
    name: str
