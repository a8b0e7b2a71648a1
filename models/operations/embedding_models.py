"""Which embedding model a deployment uses. The setting says which one it begins with, then this table does.

So all workers change at the same moment, and a setting that was changed on one of them mixes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.providers import EmbeddedByModel
from models.db.connection import driver


@dataclass(frozen=True, slots=True)
class ActiveModel:
    """The active model."""

    model: str
    spec: str
    since: datetime


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
        connection.execute(_BEGIN, {"model": model, "spec": spec, "dimensions": dimensions})
        row = connection.execute(_HOLD).one()
    if row.model != model:
        raise EmbeddingUnavailable(f"the deployment has moved to {row.model} while {model} was asked: the work waits a moment")
    check_size(model, row.dimensions, dimensions)
    if row.dimensions is None:
        connection.execute(_SIZE, {"model": model, "dimensions": dimensions})


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


_IN_USE = "SELECT model, spec, active_since FROM embedding_models WHERE state = 'active'"
# FOR SHARE: workers hold it side by side; who moves the deployment waits for them, and they for him.
_HOLD = text("SELECT model, dimensions FROM embedding_models WHERE state = 'active' FOR SHARE")
_BEGIN = text("""
    INSERT INTO embedding_models (model, spec, dimensions, state, active_since)
    VALUES (:model, :spec, :dimensions, 'active', clock_timestamp()) ON CONFLICT DO NOTHING
""")
_SIZE = text("UPDATE embedding_models SET dimensions = :dimensions WHERE model = :model")
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
