"""Items of stores get their vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from engine.providers.embedder_specs import Embedder
from engine.providers.embedders import own_embedder
from engine.stores.items import embed, model_name, without_labels
from jiyi.errors import ProviderUnavailable, SettingsError
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from jiyi.stores.types import EmbeddingConfig, EmbeddingParams
from models.db.connection import unit_of_work
from models.operations import embedding_models
from models.stores import items as items_
from models.stores import rows
from models.stores.items import EMBED_ITEMS, ItemToEmbed, vendor
from models.stores.rows import StoreRecord
from tasks.framework.embedding import in_use
from tasks.framework.work import Batch, work_task


@dataclass(slots=True)
class _OfStore:
    """A store's items of a batch, and their vectors by their contents' hashes."""

    embedder: StoreEmbedder
    wanted: list[ItemToEmbed]
    made: dict[bytes, Float32]


@work_task(EMBED_ITEMS, batch=get_settings().embed_batch, time_limit=90)
def embed_items(batch: Batch) -> None:
    """Embed items of stores by their stores' embedders; what a store has for the same content is copied.

    A store whose embedder is away waits, the others go on.

    Safe to repeat because an item that is gone, or whose store has no embedder, is passed over, and a vector that is there already
    is written again as it is.
    """
    stores: dict[UUID, _OfStore] = {}
    for store, wanted in _items_by_store(batch):
        try:
            own = _embed(store, wanted)
        except (ProviderUnavailable, SettingsError) as error:
            batch.put_off([item.item_id for item in wanted], str(error))
            continue
        if own is not None:
            stores[store.store_id] = own
    with batch.finish() as (connection, owed):
        mine = set(owed)
        for store_id, own in sorted(stores.items()):
            if own.made:
                own.embedder.hold(connection, len(next(iter(own.made.values()))))
            new = [(item, own.made[item.content_hash]) for item in own.wanted if item.item_id in mine and item.content_hash in own.made]
            same = [item.item_id for item in own.wanted if item.item_id in mine and item.content_hash not in own.made]
            items_.fill(connection, store_id, new, own.embedder.model)
            items_.copy(connection, store_id, same, own.embedder.model)
        models = {store_id: own.embedder.model for store_id, own in stores.items()}
        batch.again.extend(items_.without(connection, owed, models))


def _items_by_store(batch: Batch) -> list[tuple[StoreRecord, list[ItemToEmbed]]]:
    items: dict[UUID, list[ItemToEmbed]] = defaultdict(list)
    with unit_of_work() as connection:
        for item in items_.to_embed(connection, batch.subject_ids):
            items[item.store_id].append(item)
        return [(store, items[store_id]) for store_id, store in rows.by_ids(connection, list(items)).items()]


def _embed(store: StoreRecord, wanted: list[ItemToEmbed]) -> _OfStore | None:
    """Each content that the store has no vector for is embedded once; None: the store has no embedder."""
    with unit_of_work() as connection:
        embedder = embedder_of_store(connection, store)
        if embedder is None:
            return None
        known = items_.known(connection, store.store_id, [item.content_hash for item in wanted], embedder.model)
    missing = {item.content_hash: without_labels(item.content) for item in wanted if item.content_hash not in known}
    vectors = embedder.passages(list(missing.values())) if missing else ()
    return _OfStore(embedder, wanted, dict(zip(missing, vectors, strict=True)))


@dataclass(frozen=True, slots=True)
class StoreEmbedder:
    """Makes the vectors of a store's items and questions."""

    embedder: Embedder
    params: EmbeddingParams
    #: The deployment's name of it; empty for a store's own.
    spec: str

    @property
    def model(self) -> str:
        """Stored with every vector: of another model, or of texts cut in another way, none is compared."""
        return model_name(self.embedder.model, self.params)

    def passages(self, texts: Sequence[str]) -> Float32:
        return embed(texts, self.params, self.embedder.passages)

    def query(self, text: str) -> Float32:
        return self.embedder.query(text[: self.params.max_length])

    def hold(self, connection: Connection, dimensions: int) -> None:
        """Before vectors are stored: those of the deployment's model are to be of the active one until the transaction ends."""
        if self.spec:
            embedding_models.hold(connection, self.embedder.model, self.spec, dimensions)


def embedder_of_store(connection: Connection, store: StoreRecord) -> StoreEmbedder | None:
    """None: the store has none. Raises :class:`jiyi.errors.EmbeddingUnavailable` or :class:`jiyi.errors.SettingsError`."""
    given: EmbeddingConfig | None = getattr(store.config, "embedding", None)
    if given is None:
        return None
    if given.provider == "deployment":
        embedder, spec = in_use(connection)
        return StoreEmbedder(embedder, given.params, spec)
    key = "" if given.api_key is None else given.api_key.get_secret_value()
    name = given.params.model_path or given.model if given.provider == "local" else given.model
    engine = own_embedder(vendor(given), name, given.params.dimensions, given.base_url or "", key, store.group_id)
    return StoreEmbedder(engine, given.params, "")
