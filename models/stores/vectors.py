"""Vectors of items: which are wanted, and their being filled in. A vector is never stored in place of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from engine.providers.embedders import declaration_problem
from engine.providers.public_addresses import check_public
from jiyi.errors import ConfigError
from jiyi.protocol.providers import PRESETS
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from jiyi.stores.types import EmbeddingConfig
from models.operations.embedding_models import owes_vectors
from models.stores import rows
from models.stores.items import EMBED_ITEMS


@dataclass(frozen=True, slots=True)
class ItemToEmbed:
    """An item without a vector of its store's embedder."""

    item_id: UUID
    store_id: UUID
    content: str
    content_hash: bytes


def to_embed(connection: Connection, item_ids: Sequence[UUID]) -> list[ItemToEmbed]:
    """Those of the items that are there, whether they have a vector or not."""
    return [
        ItemToEmbed(row.item_id, row.store_id, row.content_summary, bytes(row.content_hash))
        for row in connection.execute(_TO_EMBED, {"ids": list(item_ids)})
    ]


def known(connection: Connection, store_id: UUID, hashes: Sequence[bytes], model: str) -> set[bytes]:
    """Those of the contents that the store has a vector of this model for."""
    return {bytes(row.content_hash) for row in connection.execute(_KNOWN, {"store": store_id, "hashes": list(hashes), "model": model})}


def fill(connection: Connection, store_id: UUID, made: Sequence[tuple[ItemToEmbed, Float32]], model: str) -> None:
    """Store new vectors. The items' contents do not change, so they are still theirs; with their store they are gone."""
    if made and (revision := rows.bump_if_there(connection, store_id)) is not None:
        values = [{"id": one.item_id, "vector": vector, "model": model, "revision": revision} for one, vector in made]
        connection.execute(_FILL, values)


def copy(connection: Connection, store_id: UUID, item_ids: Sequence[UUID], model: str) -> None:
    """Give items the vector that the store has for the same content."""
    if item_ids and (revision := rows.bump_if_there(connection, store_id)) is not None:
        connection.execute(_COPY, {"store": store_id, "ids": list(item_ids), "model": model, "revision": revision})


def without(connection: Connection, item_ids: Sequence[UUID], models: dict[UUID, str]) -> list[UUID]:
    """Those that have no vector of their store's model (by store)."""
    found = connection.execute(_WITHOUT, {"ids": list(item_ids)})
    return [row.item_id for row in found if row.store_id in models and row.embedding_model != models[row.store_id]]


@owes_vectors(EMBED_ITEMS)
def owe_all(connection: Connection, _model: str) -> int:
    """Owe a vector to every item of a store that the deployment's embedder serves: after a move to another model."""
    return connection.execute(_OWE_ALL, {"kind": EMBED_ITEMS}).rowcount


_TO_EMBED = text("SELECT item_id, store_id, content_summary, content_hash FROM store_items WHERE item_id = ANY(:ids) ORDER BY item_id")
_KNOWN = text("""
    SELECT DISTINCT content_hash FROM store_items
    WHERE store_id = :store AND content_hash = ANY(:hashes) AND embedding_model = :model
""")
_FILL = text("UPDATE store_items SET embedding = :vector, embedding_model = :model, revision = :revision WHERE item_id = :id")
_COPY = text("""
    UPDATE store_items i SET embedding = o.embedding, embedding_model = :model, revision = :revision
    FROM (
        SELECT DISTINCT ON (content_hash) content_hash, embedding FROM store_items
        WHERE store_id = :store AND embedding_model = :model
            AND content_hash IN (SELECT content_hash FROM store_items WHERE item_id = ANY(:ids))
    ) o
    WHERE i.item_id = ANY(:ids) AND i.store_id = :store AND i.content_hash = o.content_hash
""")
_WITHOUT = text("SELECT item_id, store_id, embedding_model FROM store_items WHERE item_id = ANY(:ids)")
_OWE_ALL = text("""
    INSERT INTO pending_work (kind, subject_id, group_id)
    SELECT :kind, i.item_id, i.group_id FROM store_items i JOIN stores s ON s.group_id = i.group_id AND s.store_id = i.store_id
    WHERE s.type IN ('simple', 'file') AND coalesce(s.config -> 'embedding' ->> 'provider', 'deployment') = 'deployment'
        AND s.config -> 'embedding' IS DISTINCT FROM '"none"'
    ON CONFLICT DO NOTHING
""")


def check_embedder(given: EmbeddingConfig | None, path: str) -> None:
    """Raises :class:`ConfigError`: something is missing, or its address is in a private network."""
    if given is None or given.provider == "deployment":
        return
    key = "" if given.api_key is None else given.api_key.get_secret_value()
    wrong = declaration_problem(vendor(given), given.model, given.base_url or "", key)
    if wrong is not None:
        raise ConfigError([f"{path}.{wrong}"])
    address = given.base_url or (PRESETS[given.provider].base_url if given.provider in PRESETS else "")
    if address and address != get_settings().embedder_base_url and (why := check_public(address)) is not None:
        raise ConfigError([f"{path}.base_url: {why}"])


def vendor(given: EmbeddingConfig) -> str:
    """The provider by the name that :mod:`engine.providers` has for it."""
    return "fastembed" if given.provider == "local" else given.provider
