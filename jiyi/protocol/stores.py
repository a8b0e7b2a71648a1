"""Declared stores: what they keep, and the requests and answers about them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints

from jiyi.protocol.base import Name, Paged, Request

#: Characters of a snapshot's text, and blocks of a snapshot, at most.
MAX_TEXT, MAX_BLOCKS = 200_000, 200


class SnapshotBlock(BaseModel, extra="forbid"):
    """A block of a message, as the graph's program has it: a text, an image with its base64, a file."""

    role: Annotated[str, Field(max_length=200)]
    block: dict[str, Any]


class Snapshot(BaseModel, extra="forbid"):
    """Messages as they went in or came out: their text, and their blocks."""

    text: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    blocks: Annotated[list[SnapshotBlock], Field(max_length=MAX_BLOCKS)] = []


class Attachment(BaseModel):
    """An attachment. Items' metadata have it without ``data``: its bytes are kept once by their SHA-256."""

    attachment_id: str
    mime_type: str
    size: int
    role: str = ""
    name: str = ""
    data: str | None = Field(None, description="The bytes in base64; only of one attachment by its id.")


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


#: Characters of a question.
MAX_QUERY = 400_000
MAX_TOP_K = 1_000

RunId = Annotated[str, StringConstraints(max_length=200)]


class ApplyGraph(Request):
    """The declarations of a graph, as they stand in its file."""

    graph: Name = Field(description="Its name: what the map of nodes and stores goes by.")
    memory: list[dict[str, Any]] = Field(
        default=[], max_length=100, description="Stores: name, type, config."
    )
    nodes: list[dict[str, Any]] = Field(default=[], max_length=1_000, description="Nodes: id, memories.")
    run_id: RunId = Field("", description="Make the stores without a path, too: they are this run's.")


class AppliedStore(BaseModel):
    """What became of a declaration."""

    name: str
    type: str
    #: None: it is not the service's to keep, or has no path and no run was named.
    store_id: UUID | None
    change: Literal["made", "changed", "unchanged", "of_each_run", "of_the_program"]


class AppliedGraph(BaseModel):
    """What is declared now."""

    graph: str
    stores: list[AppliedStore]
    nodes: int


class StoreName(Request):
    """A store by its name; with ``run_id`` the one of that run."""

    name: Name
    run_id: RunId = ""


class StoreState(BaseModel):
    """A store, what is in it, and how far its index is."""

    store_id: UUID
    name: str
    run_id: str
    type: str
    summary: str = ""
    #: As declared, without secrets.
    config: dict[str, Any]
    state: str
    state_reason: str
    items: int
    #: Items without a vector of the store's embedder, found by their words.
    pending: int
    #: Files by their state, of a store that reads files.
    files: dict[str, int] = {}
    attachments: int = 0
    attachment_bytes: int = 0
    created_at: datetime
    used_at: datetime
    loaded_at: datetime | None
    scanned_at: datetime | None


class StoresQuery(Paged):
    """Which stores."""

    run_id: RunId | None = Field(None, description="Those of one run; empty: the group's only; else all.")


class ItemsQuery(Paged, StoreName):
    """A page of a store's items, newest first."""


class FilesQuery(Paged, StoreName):
    """A page of the files of a store, in the order of their paths."""

    state: Annotated[str, StringConstraints(max_length=40)] | None = Field(
        None, description="Only those in this state."
    )


class ListedFile(BaseModel):
    """A file of a store's sources, and how far its index is."""

    file_id: UUID
    #: The source's path as declared, and the file's within it.
    source: str
    path: str
    #: ``pending``, ``indexed``, or what is the matter, for which ``state_reason`` names the fix.
    state: str
    state_reason: str
    size: int
    chunks_count: int
    #: Chunks that have their vector.
    embedded: int
    indexed_at: datetime | None


class ListedItem(MemoryItem):
    """An item in a list: with its place, and whether it has its vector."""

    position: int
    embedded: bool


class RetrieveItems(StoreName):
    """Search a store."""

    role: Annotated[str, StringConstraints(max_length=200)] = ""
    query: str = Field(max_length=MAX_QUERY)
    top_k: int = Field(3, ge=1, le=MAX_TOP_K)
    similarity_threshold: float = Field(-1, ge=-1, le=1)
    search: Literal["hybrid", "dense", "lexical"] | None = Field(
        None,
        description=(
            "How a store of files is searched: by meaning and words, or by either alone; as declared unless"
            " given."
        ),
    )


class FoundStoreItems(BaseModel):
    """What was found, best first; a blackboard's oldest first."""

    hits: list[Hit]
    #: Items of the store that could not be compared: their vectors are another model's, or of another size.
    skipped: int = 0
    #: Items that have no vector yet, and were looked for by their words.
    pending: int = 0
    #: What did not work, and what was done instead: the embedder is away, mem0 did not answer.
    notes: list[str] = []


class UpdateStore(StoreName):
    """Store what a node said."""

    role: Annotated[str, StringConstraints(max_length=200)]
    inputs_text: Annotated[str, StringConstraints(max_length=200_000)] = ""
    input_snapshot: Snapshot | None = None
    output_snapshot: Snapshot | None = None


class WrittenItem(BaseModel):
    """What became of an update."""

    #: The item; None: nothing was stored, for the reason.
    item_id: str | None
    reason: str = ""
    #: Items that went because there were too many.
    dropped: int = 0


class SavedStore(BaseModel):
    """Where a store was written to."""

    #: As the store declares it; None: it has no path, and is kept all the same.
    path: str | None
    items: int


class AttachmentQuery(StoreName):
    attachment_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


OperationType = Literal["RETRIEVE", "UPDATE"]


class StoreUse(BaseModel):
    """What a store had to do with an operation."""

    name: Annotated[str, StringConstraints(max_length=200)]
    items: int = 0
    error: Annotated[str, StringConstraints(max_length=500)] = ""


#: Characters that a node can have been given or have said; fits a 32-bit integer.
MAX_SIZE = 2_000_000_000


class LogOperation(Request):
    """What a node did with its stores."""

    graph: Name
    run_id: RunId = ""
    node_id: Name
    operation_type: OperationType
    stage: Annotated[str, StringConstraints(max_length=40)]
    item_count: int = Field(0, ge=0, le=1_000_000)
    attachment_count: int = Field(0, ge=0, le=1_000_000)
    input_size: int = Field(0, ge=0, le=MAX_SIZE, description="Characters.")
    output_size: int = Field(0, ge=0, le=MAX_SIZE, description="Characters.")
    duration_ms: float = Field(0, ge=0, le=86_400_000, allow_inf_nan=False)
    stores: list[StoreUse] = Field(default=[], max_length=100)
