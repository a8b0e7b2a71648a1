"""What stores keep: items with what went in and came out of a node, blocks and attachments included."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

#: Characters of a snapshot's text, and blocks of a snapshot, at most.
MAX_TEXT, MAX_BLOCKS = 200_000, 200


class SnapshotBlock(BaseModel):
    """A block of a message, as the graph's program has it: a text, an image with its base64, a file."""

    model_config = ConfigDict(extra="forbid")

    role: Annotated[str, Field(max_length=200)]
    block: dict[str, Any]


class Snapshot(BaseModel):
    """Messages as they went in or came out: their text, and their blocks."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    blocks: Annotated[list[SnapshotBlock], Field(max_length=MAX_BLOCKS)] = []


class AttachmentNote(BaseModel):
    """An attachment in an item's metadata; its bytes are kept once by their SHA-256."""

    role: str
    attachment_id: str
    mime_type: str
    name: str
    size: int


class MemoryItem(BaseModel):
    """An item of a store, in the original's fields."""

    id: str
    content_summary: str
    input_snapshot: Snapshot | None = None
    output_snapshot: Snapshot | None = None
    metadata: dict[str, Any] = {}
    embedding: list[float] | None = None
    #: Seconds since 1970.
    timestamp: float


class Hit(BaseModel):
    """An item that a store found."""

    item: MemoryItem
    #: None: of a store without scores.
    score: float | None = None
    #: None: it has no vector that can be compared.
    cosine: float | None = None
    #: What else the score is made of, by name.
    parts: dict[str, float] = {}
