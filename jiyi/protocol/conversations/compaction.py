"""Requests and answers about conversations that get too long."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from jiyi.protocol.base import Request
from jiyi.protocol.conversations.commands import MAX_MESSAGES

Urgency = Literal["none", "soft", "hard"]


class ChatMessage(BaseModel):
    """A message as chat APIs have them; fields that are not named here stay as they are."""

    model_config = ConfigDict(extra="allow", frozen=True)

    role: str = Field(pattern=r"\S", max_length=50)
    content: str | None = None
    #: Of an assistant's message that calls tools, and of a tool's answer.
    tool_calls: list[dict[str, object]] | None = None
    tool_call_id: str | None = None


class CompactionLimits(BaseModel):
    """When a conversation is compacted, and what stays; in tokens, messages and seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    soft_tokens: int = Field(15_000, ge=100, le=10_000_000)
    hard_tokens: int = Field(20_000, ge=100, le=10_000_000)
    #: Of the hard limit this is left for the answer.
    reserve_tokens: int = Field(4_000, ge=0, le=1_000_000)
    keep_recent: int = Field(6, ge=1, le=1_000)
    cooldown_seconds: float = Field(30, ge=0, le=86_400)
    min_new_messages: int = Field(6, ge=0, le=1_000)
    summary_max_tokens: int = Field(1_000, ge=50, le=100_000)


class CountMessages(Request):
    messages: Annotated[list[ChatMessage], Field(max_length=MAX_MESSAGES)]


class CheckThreshold(CountMessages):
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
