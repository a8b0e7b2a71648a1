"""Which embedding model a deployment uses. The setting says which one it begins with, then this table does.

So all workers change at the same moment, and a setting that was changed on one of them mixes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from engine import subjects
from engine.providers.embedder_specs import chosen, dimensions_of, model_of
from jiyi.errors import EmbeddingUnavailable, SettingsError
from jiyi.protocol.providers import EmbeddedByModel
from jiyi.settings import get_settings
from models.db.connection import driver, tell_scope
from models.db.scope import whole_service
from models.memory.work import EMBED


@dataclass(frozen=True, slots=True)
class ActiveModel:
    """The active model."""

    model: str
    spec: str
    since: datetime
    #: Values of a vector; None before the service made one.
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class TextWithoutVector:
    """A text that has yet to be embedded: whose it is, and which of its texts."""

    subject_id: UUID
    content: str
    number: int = 0


def active_model(connection: Connection) -> ActiveModel | None:
    """The active model; None while no memory was ever embedded."""
    row = driver(connection).execute(_IN_USE).fetchone()
    return None if row is None else ActiveModel(*row)


def hold(connection: Connection, model: str, spec: str, dimensions: int) -> None:
    """Before vectors are stored: make sure, until the transaction ends, that they are the active model's.

    The first vectors of all make their model the active one.

    Raises:
        EmbeddingUnavailable: another model has become active meanwhile, or this one's vectors had another size.
    """
    row = connection.execute(_HOLD).one_or_none()
    if row is None:
        if connection.execute(_BEGIN, {"model": model, "spec": spec, "dimensions": dimensions}).rowcount:
            drop_misfits(connection, model, dimensions)
        row = connection.execute(_HOLD).one()
    if row.model != model:
        raise EmbeddingUnavailable(f"the deployment has moved to {row.model} while {model} was asked: the work waits a moment")
    check_size(model, row.dimensions, dimensions)
    if row.dimensions is None:
        set_size(connection, model, dimensions)


#: Owes work to all texts of a subject that have no vector of a model yet, in the scope of the whole service.
OweVectors = Callable[[Connection, str], object]
_OWE: dict[str, OweVectors] = {}


def owes_vectors(kind: str) -> Callable[[OweVectors], OweVectors]:
    """Have a function owe work of a kind after a move to another model: for what a subject embeds besides memories."""

    def register(function: OweVectors) -> OweVectors:
        _OWE[kind] = function
        return function

    return register


def owe_vectors(connection: Connection, model: str) -> list[str]:
    """After a move: owe vectors to all that subjects embed, also to what is of subjects that are off; returns the kinds of work."""
    subjects.load_always()
    for owe in _OWE.values():
        owe(connection, model)
    return list(_OWE)


def set_size(connection: Connection, model: str, dimensions: int) -> None:
    """Record how many values the model's vectors have, once the service has made the first of them."""
    connection.execute(_SIZE, {"model": model, "dimensions": dimensions})
    drop_misfits(connection, model, dimensions)


def drop_misfits(connection: Connection, model: str, dimensions: int) -> int:
    """Free memories of vectors of another size, which callers gave them under the model's name before its size was known.

    They owe vectors of the service's own from now on. Returns how many they are, in all groups.
    """
    with whole_service():
        tell_scope(connection)
        freed = connection.execute(_DROP_MISFITS, {"model": model, "dimensions": dimensions, "kind": EMBED}).rowcount
    tell_scope(connection)
    return freed


def known_sizes(connection: Connection) -> dict[str, int]:
    """Model → values of a vector: of all that the service has used, and of the one that the settings name."""
    return default_size() | dict(driver(connection).execute(_SIZES).fetchall())


def default_size() -> dict[str, int]:
    """The same of the model that the settings name alone; empty where it takes a first vector to know."""
    try:
        spec = chosen(get_settings())
    except SettingsError:  # reported by whoever uses the embedder
        return {}
    dimensions = dimensions_of(spec)
    return {} if dimensions is None else {model_of(spec): dimensions}


def check_size(model: str, known: int | None, dimensions: int) -> None:
    """Raises :class:`EmbeddingUnavailable` if the model's vectors had another size before."""
    if known not in (None, dimensions):
        raise EmbeddingUnavailable(
            f"{model} gives vectors of {dimensions:,} values, those that are stored have {known:,}: another model goes by its "
            "name now. Nothing is stored; set JIYI_EMBEDDER back, or move to the new model under a name of its own with "
            "`jiyi reembed --to`"
        )


def all_models(connection: Connection) -> list[EmbeddedByModel]:
    """Every model that is known or has vectors, with how many memories have one by it; those with most first."""
    return [EmbeddedByModel.model_validate(dict(row)) for row in connection.execute(_ALL).mappings()]


_IN_USE = "SELECT model, spec, active_since, dimensions FROM embedding_models WHERE state = 'active'"
# FOR SHARE: workers hold it side by side; who moves the deployment waits for them, and they for him.
_HOLD = text("SELECT model, dimensions FROM embedding_models WHERE state = 'active' FOR SHARE")
_BEGIN = text("""
    INSERT INTO embedding_models (model, spec, dimensions, state, active_since)
    VALUES (:model, :spec, :dimensions, 'active', clock_timestamp()) ON CONFLICT DO NOTHING
""")
_SIZE = text("UPDATE embedding_models SET dimensions = :dimensions WHERE model = :model")
_SIZES = "SELECT model, dimensions FROM embedding_models WHERE dimensions IS NOT NULL"
_DROP_MISFITS = text("""
    WITH freed AS (
        UPDATE memory_nodes SET embedding = NULL, embedding_model = NULL, changed_xid = pg_current_xact_id()
        WHERE embedding_model = :model AND vector_dims(embedding) <> :dimensions RETURNING node_id, group_id
    )
    INSERT INTO pending_work (kind, subject_id, group_id) SELECT :kind, node_id, group_id FROM freed ON CONFLICT DO NOTHING
""")
_ALL = text("""
    WITH counted AS (
        SELECT embedding_model AS model, count(*) AS memories FROM memory_nodes WHERE embedding_model IS NOT NULL GROUP BY 1
    ), beside AS (
        SELECT model, count(*) AS memories FROM next_vectors GROUP BY 1
    )
    SELECT model, m.spec, m.dimensions, m.state, m.active_since, m.replaces, m.everything,
        coalesce(c.memories, 0) AS memories, coalesce(b.memories, 0) AS beside
    FROM embedding_models m FULL JOIN counted c USING (model) FULL JOIN beside b USING (model)
    ORDER BY memories DESC, model
""")
