"""The configuration of each built-in type of store."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, StrictBool, StringConstraints, field_validator, model_validator

from jiyi.protocol.events import Name
from jiyi.stores.config.checking import Config
from jiyi.stores.config.embedding import DEPLOYMENT, Embedding, EmbeddingConfig
from jiyi.stores.config.encodings import known_encoding

#: Items of a store, unless told otherwise, and the most that may be asked for.
MAX_ITEMS, MOST_ITEMS = 1_000, 1_000_000
#: Characters that are kept of a text to be found by.
MAX_CONTENT_LENGTH = 500
#: Characters of a chunk and of what it repeats.
CHUNK_SIZE, CHUNK_OVERLAP = 500, 50
#: Kinds of files that are read, unless a source names its own.
FILE_TYPES = (".md", ".mdx", ".txt", ".csv", ".json", ".html", ".pdf")
#: The run's own store: what comes of no path, too.
AUTO = "auto"

Fidelity = Literal["jiyi", "devall"]
StorePath = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]
ItemLimit = Annotated[int, Field(strict=True, ge=1, le=MOST_ITEMS)]


class KeptConfig(Config):
    """A store that Jiyi keeps. With a path it is the group's, without one (or with ``auto``) the run's own."""

    memory_path: StorePath | None = Field(
        None, description="A `.json` file in a folder of JIYI_STORE_ROOTS, in the original's format; `auto`: of the run."
    )

    @property
    def path(self) -> str | None:
        """The file that it is loaded from and saved to; None: the run's own store."""
        return None if self.memory_path in (None, AUTO) else self.memory_path


class SimpleMemoryConfig(KeptConfig):
    """What agents said, found by meaning and by words."""

    embedding: Embedding = DEPLOYMENT
    max_items: ItemLimit = Field(MAX_ITEMS, description="Items beyond which the oldest go.")
    max_content_length: int = Field(
        MAX_CONTENT_LENGTH, ge=20, le=20_000, description="Characters of a text that count, of a question and of an item."
    )
    fidelity: Fidelity = Field("jiyi", description="`devall`: the formulas of the original.")


class BlackboardMemoryConfig(KeptConfig):
    """The latest that agents said, oldest first."""

    max_items: ItemLimit = Field(MAX_ITEMS, description="Items beyond which the oldest go.")


class FileSource(Config):
    """A file or folder whose files are read."""

    path: StorePath
    file_types: list[Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^\.?[A-Za-z0-9]{1,10}$")]] | None = Field(
        None, max_length=50, description="Endings of files' names, in any case; all that can be read unless given."
    )
    recursive: StrictBool = Field(True, description="Whether folders within are read, too.")
    encoding: str = Field("utf-8", max_length=40)

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, given: str) -> str:
        if known_encoding(given) is None:
            raise ValueError(f"unknown encoding {given!r}; write utf-8, gb18030, big5, shift_jis, latin-1, …")
        return given

    @property
    def endings(self) -> frozenset[str]:
        """Endings of files that are read, with their dot and in lower case."""
        return frozenset("." + one.lower().lstrip(".") for one in self.file_types or FILE_TYPES)


class FileMemoryConfig(Config):
    """The texts of files, indexed in chunks; nothing is written to it."""

    index_path: StorePath | None = Field(None, description="A `.json` file that the index is saved to, in the original's format.")
    memory_path: StorePath | None = Field(None, description="Stands for index_path.")
    file_sources: list[FileSource] = Field(min_length=1, max_length=100)
    embedding: Embedding = DEPLOYMENT
    chunk_size: int = Field(CHUNK_SIZE, ge=20, le=20_000, description="Characters of a chunk.")
    chunk_overlap: int = Field(CHUNK_OVERLAP, ge=0, description="Characters that a chunk repeats of the one before.")
    search: Literal["hybrid", "dense"] = Field("hybrid", description="By meaning and words, or by meaning alone as in the original.")

    @field_validator("embedding")
    @classmethod
    def _has_vectors(cls, given: EmbeddingConfig | None) -> EmbeddingConfig | None:
        if given is None:
            raise ValueError("a file store needs an embedding: leave it out for the deployment's")
        return given

    @model_validator(mode="after")
    def _chunks(self) -> FileMemoryConfig:
        if self.chunk_overlap * 2 >= self.chunk_size:
            raise ValueError("chunk_overlap: must be below half of chunk_size")
        return self

    @property
    def path(self) -> str | None:
        """The file that the index is saved to."""
        return self.index_path or self.memory_path


class LongTermConfig(Config):
    """Jiyi's long-term memory of an agent: the service's retrieval, and its events."""

    agent_id: Name | None = Field(None, description="Whose memory; the node's role unless given.")


class Mem0MemoryConfig(Config):
    """A store that mem0 keeps: it searches and stores, Jiyi sends."""

    api_key: SecretStr | None = None
    base_url: str = Field("https://api.mem0.ai", max_length=1_000)
    user_id: Name | None = None
    agent_id: Name | None = None

    @model_validator(mode="after")
    def _of_somebody(self) -> Mem0MemoryConfig:
        if self.user_id is None and self.agent_id is None:
            raise ValueError("user_id: give a user_id or an agent_id, or both")
        return self
