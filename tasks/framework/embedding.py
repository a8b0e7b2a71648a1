"""Rows of any table whose texts get vectors: read, embedded outside of a transaction, stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from sqlalchemy import Connection

from engine.providers.embedder_specs import Embedder, configured_spec, sized
from engine.providers.embedders import embedder, embedder_of
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.operations import embedding_models
from models.operations.embedding_models import TextWithoutVector
from tasks.framework.work import Batch


class Texts(Protocol):
    """A module of ``models`` with the texts of a table: ``tiers.knowledge``, ``items.storage``."""

    def to_embed(self, connection: Connection, ids: Sequence[UUID], model: str) -> list[TextWithoutVector]:
        """Texts of these subjects that have no vector of this model."""

    def fill(
        self, connection: Connection, vectors: Sequence[tuple[TextWithoutVector, Float32]], model: str
    ) -> None:
        """Store vectors; the vector of a text that has changed meanwhile stays pending."""


#: What gives the texts that have no vector of a model.
Missing = Callable[[Connection, str], list[TextWithoutVector]]


def embed_pending(batch: Batch, texts: Texts) -> None:
    """Embed the texts of a batch's subjects; those whose texts have changed meanwhile are pending again."""
    embedded = _embed(lambda connection, model: texts.to_embed(connection, batch.subject_ids, model))
    with batch.finish() as (connection, pending):
        if embedded is None:
            return
        still = set(pending)
        mine = [(item, vector) for item, vector in embedded.vectors if item.subject_id in still]
        embedded.store(connection, texts, mine)
        batch.again.extend({item.subject_id for item in texts.to_embed(connection, pending, embedded.model)})


def embed_now(texts: Texts, missing: Missing) -> bool:
    """Embed what is missing and store it at once; False if nothing was."""
    embedded = _embed(missing)
    if embedded is None:
        return False
    with unit_of_work() as connection:
        embedded.store(connection, texts, embedded.vectors)
    return True


def in_use(connection: Connection) -> tuple[Embedder, str]:
    """The deployment's embedder and its name: that of its memories, else the one that the settings name."""
    used = embedding_models.active_model(connection)
    if used is not None:
        return sized(embedder_of(used.spec), used.dimensions), used.spec
    return embedder(), str(configured_spec(get_settings()))


@dataclass(frozen=True, slots=True)
class _Embedded:
    model: str
    spec: str
    vectors: list[tuple[TextWithoutVector, Float32]]

    def store(
        self, connection: Connection, texts: Texts, vectors: Sequence[tuple[TextWithoutVector, Float32]]
    ) -> None:
        """Raises ``EmbeddingUnavailable`` if the deployment has moved to another model meanwhile."""
        embedding_models.hold(connection, self.model, self.spec, len(self.vectors[0][1]))
        texts.fill(connection, vectors, self.model)


def _embed(missing: Missing) -> _Embedded | None:
    """No transaction is open while the embedder works. None: nothing is missing."""
    with unit_of_work() as connection:
        engine, spec = in_use(connection)
        texts = missing(connection, engine.model)
    if not texts:
        return None
    vectors = engine.passages([item.content for item in texts])
    return _Embedded(engine.model, spec, list(zip(texts, vectors, strict=True)))
