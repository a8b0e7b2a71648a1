"""The embedder of a store: the deployment's, or its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from engine.providers.embedders import Embedder
from engine.providers.embedders.own import own_embedder
from engine.stores.items import embed, model_name
from jiyi.protocol.wire.vectors import Float32
from jiyi.stores.config.embedding import EmbeddingConfig, EmbeddingParams
from models.operations import embedding_models
from models.stores.embedding import vendor
from models.stores.kinds.kept import KeptStore
from tasks.framework.embedding import in_use


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


def embedder_of_store(connection: Connection, store: KeptStore) -> StoreEmbedder | None:
    """None: the store has none. Raises :class:`jiyi.errors.EmbeddingUnavailable` or :class:`jiyi.errors.SettingsError`."""
    given: EmbeddingConfig | None = getattr(store.config, "embedding", None)
    if given is None:
        return None
    if given.provider == "deployment":
        embedder, spec = in_use(connection)
        return StoreEmbedder(embedder, given.params, spec)
    key = "" if given.api_key is None else given.api_key.get_secret_value()
    name = given.params.model_path or given.model if given.provider == "local" else given.model
    made = own_embedder(vendor(given), name, given.params.dimensions, given.base_url or "", key, store.group_id)
    return StoreEmbedder(made, given.params, "")
