"""Which embedding model a deployment uses, and how it moves to another one beside the running service, in
steps that may end anywhere.

The setting says which one it begins with, then the table does.

1. **Fill**: the new model's vectors are put into ``next_vectors``, beside the nodes; nothing else changes.
2. **Switch**, in one short transaction: the new model becomes the active one. From then on questions are
   embedded by it and compared with its vectors, which are read from either place
   (``models.retrieval.agent_index``).
3. **Fold**: the vectors take the old ones' place in the nodes, batch by batch, once no question is on its way
   that was embedded by the old model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np
from sqlalchemy import BindParameter, Boolean, Connection, and_, bindparam, exists, func, or_, select, text
from sqlalchemy.orm import aliased

from engine import subjects
from engine.providers.embedder_specs import check_size, configured_spec, dimensions_of, model_of
from jiyi.errors import EmbeddingUnavailable, SettingsError
from jiyi.protocol.providers import EmbeddingModel
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from models.db.connection import apply_scope, driver
from models.db.scope import whole_service
from models.memory import nodes
from models.memory.nodes import TextToEmbed
from models.memory.tables import MemoryNode
from models.memory.work import EMBED
from models.operations.tables import NextVector

#: Kind of work → a SELECT of (id, group) of all texts of a subject that have no vector of ``:model`` yet.
_VECTOR_WORK: dict[str, str] = {}
_IN_USE = "SELECT model, spec, active_since, dimensions FROM embedding_models WHERE state = 'active'"
_SIZES = "SELECT model, dimensions FROM embedding_models WHERE dimensions IS NOT NULL"
#: Where a round through all nodes begins.
FIRST = UUID(int=0)
_N, _V = MemoryNode, NextVector


@dataclass(frozen=True, slots=True)
class ActiveModel:
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
    """Before vectors are stored: they are the active model's until the transaction ends; the first make it
    so.

    Raises :class:`EmbeddingUnavailable` if another model is active now, or the size differs.
    """
    row = connection.execute(_HOLD).one_or_none()
    if row is None:
        if connection.execute(_BEGIN, {"model": model, "spec": spec, "dimensions": dimensions}).rowcount:
            drop_misfits(connection, model, dimensions)
        row = connection.execute(_HOLD).one()
    if row.model != model:
        raise EmbeddingUnavailable(
            f"the deployment has moved to {row.model} while {model} was asked: the work waits"
        )
    check_size(model, row.dimensions, dimensions)
    if row.dimensions is None:
        set_size(connection, model, dimensions)


def enqueues_vectors(kind: str, texts: str) -> None:
    """Have work of a kind enqueued after a move: for what a subject embeds besides memories."""
    _VECTOR_WORK[kind] = texts


def enqueue_vectors(connection: Connection, model: str) -> list[str]:
    """After a move: enqueue the embedding of all subjects, on or off; returns the kinds of work."""
    subjects.need_all()
    for kind, texts in _VECTOR_WORK.items():
        rows = f"SELECT :kind, t.* FROM ({texts}) t ON CONFLICT DO NOTHING"  # noqa: S608 – no value
        work = text(f"INSERT INTO pending_work (kind, subject_id, group_id) {rows}")
        connection.execute(work, {"kind": kind, "model": model})
    return list(_VECTOR_WORK)


def set_size(connection: Connection, model: str, dimensions: int) -> None:
    """Record how many values the model's vectors have, once the service has made the first of them."""
    connection.execute(_SIZE, {"model": model, "dimensions": dimensions})
    drop_misfits(connection, model, dimensions)


def drop_misfits(connection: Connection, model: str, dimensions: int) -> int:
    """Free memories whose vectors, given by callers before the size was known, have another size.

    Vectors of the service's own are pending for them. Returns how many, in all groups.
    """
    parameters = {"model": model, "dimensions": dimensions, "kind": EMBED}
    with whole_service():
        apply_scope(connection)
        freed = connection.execute(_DROP_MISFITS, parameters).rowcount
    apply_scope(connection)
    return freed


def known_sizes(connection: Connection) -> dict[str, int]:
    """Model → values of a vector: of all that the service has used, and of the one that the settings name."""
    return default_size() | dict(driver(connection).execute(_SIZES).fetchall())


def default_size() -> dict[str, int]:
    """The same of the model that the settings name alone; empty where it takes a first vector to know."""
    try:
        spec = configured_spec(get_settings())
    except SettingsError:  # reported where the embedder is used
        return {}
    dimensions = dimensions_of(spec)
    return {} if dimensions is None else {model_of(spec): dimensions}


def all_models(connection: Connection) -> list[EmbeddingModel]:
    """Every model that is known or has vectors, with its number of memories; the most first."""
    return [EmbeddingModel.model_validate(dict(row)) for row in connection.execute(_ALL).mappings()]


@dataclass(frozen=True, slots=True)
class Reembedding:
    """A move that has begun; ``active_since`` is set once it has switched."""

    model: str
    spec: str
    dimensions: int | None
    replaces: str
    everything: bool
    position: UUID | None
    active_since: datetime | None


def filling(connection: Connection) -> Reembedding | None:
    """The move that has not switched yet."""
    row = connection.execute(_MOVE, {"state": "filling"}).one_or_none()
    return None if row is None else Reembedding(*row)


def finished(connection: Connection) -> Reembedding | None:
    """The move by which the active model became so; None if it always was."""
    row = connection.execute(_MOVE, {"state": "active"}).one_or_none()
    return None if row is None or row.replaces is None else Reembedding(*row)


def begin(connection: Connection, model: str, spec: str, replaces: str, *, everything: bool) -> None:
    """Begin a move; one to a model that was in use before is like any other."""
    move = {"model": model, "spec": spec, "replaces": replaces, "everything": everything}
    connection.execute(_BEGIN_MOVE, move)


def cancel(connection: Connection) -> str | None:
    """End a move that has not switched; the model's name, None if there was none."""
    model: str | None = connection.execute(_CANCEL).scalar_one_or_none()
    if model is not None:
        connection.execute(_DROP_VECTORS, {"model": model})
        connection.execute(_FORGET, {"model": model})
    return model


def left(connection: Connection, move: Reembedding) -> int:
    """How many memories have yet to be embedded by the new model."""
    return int(connection.execute(_LEFT, _stale(move)).scalar_one())


def to_embed(connection: Connection, move: Reembedding, limit: int, after: UUID = FIRST) -> list[TextToEmbed]:
    """Nodes without the new model's vector, by id; ``reuse`` has it for the same text."""
    rows = connection.execute(_TO_EMBED, {**_stale(move), "after": after, "limit": limit}).mappings()
    return [TextToEmbed(**row) for row in rows]


def stored(connection: Connection, model: str, node_ids: Sequence[UUID]) -> dict[UUID, Float32]:
    """The vectors by that model that some of the nodes have, by node."""
    rows = connection.execute(_STORED.where(_N.node_id.in_(node_ids)), {"model": model})
    return {row.node_id: np.asarray(row.embedding, dtype=np.float32) for row in rows}


def put(
    connection: Connection,
    move: Reembedding,
    vectors: Sequence[tuple[TextToEmbed, Float32]],
    copies: Sequence[TextToEmbed],
) -> None:
    """Store vectors beside their nodes, and copies of ``reuse``'s; erased nodes are left out."""
    if vectors:
        rows = [
            {"id": copied.node_id, "group": copied.group_id, "model": move.model, "vector": vector}
            for copied, vector in vectors
        ]
        connection.execute(_PUT, rows)
    if copies:
        names = {"ids": [copy.node_id for copy in copies], "groups": [copy.group_id for copy in copies]}
        others = [copy.reuse for copy in copies]
        connection.execute(_COPY, {**names, "others": others, "model": move.model})


def is_wanted(connection: Connection, move: Reembedding) -> bool:
    """Whether the move was not cancelled; nobody can until the transaction ends."""
    return connection.execute(_IS_WANTED, {"model": move.model}).one_or_none() is not None


def set_position(connection: Connection, move: Reembedding, position: UUID | None) -> None:
    connection.execute(_POSITION, {"model": move.model, "position": position})


def hold_move(connection: Connection) -> None:
    """Wait until nobody stores vectors of the active model, and let nobody until the transaction ends."""
    connection.execute(_LOCK)


def switch(connection: Connection, move: Reembedding) -> list[str]:
    """Make the new model active, under :func:`hold_move` with nothing left to embed.

    Returns the kinds of work that are pending now.
    """
    connection.execute(_RETIRE)
    connection.execute(_ACTIVATE, {"model": move.model})
    return enqueue_vectors(connection, move.model)


def seconds_since_switch(connection: Connection) -> float:
    return float(connection.execute(_SINCE).scalar_one())


def unfolded(connection: Connection, model: str) -> int:
    return int(connection.execute(_UNFOLDED, {"model": model}).scalar_one())


def fold(connection: Connection, model: str, limit: int) -> int:
    """Put some of the vectors beside the nodes into them; returns how many."""
    rows = connection.execute(_TO_FOLD, {"model": model, "limit": limit}).all()
    ids, groups = [row.node_id for row in rows], [row.group_id for row in rows]
    nodes.lock(connection, ids)
    connection.execute(_FOLD, {"ids": ids, "groups": groups, "model": model})
    return len(ids)


def _stale(move: Reembedding) -> dict[str, str | bool]:
    return {"model": move.model, "replaces": move.replaces, "everything": move.everything}


# FOR SHARE: workers hold it side by side; who moves the deployment waits for them, and they for him.
_HOLD = text("SELECT model, dimensions FROM embedding_models WHERE state = 'active' FOR SHARE")
_BEGIN = text("""
    INSERT INTO embedding_models (model, spec, dimensions, state, active_since)
    VALUES (:model, :spec, :dimensions, 'active', clock_timestamp()) ON CONFLICT DO NOTHING
""")
_SIZE = text("UPDATE embedding_models SET dimensions = :dimensions WHERE model = :model")
_DROP_MISFITS = text("""
    WITH freed AS (
        UPDATE memory_nodes SET embedding = NULL, embedding_model = NULL, changed_xid = pg_current_xact_id()
        WHERE embedding_model = :model AND vector_dims(embedding) <> :dimensions RETURNING node_id, group_id
    )
    INSERT INTO pending_work (kind, subject_id, group_id) SELECT :kind, node_id, group_id
    FROM freed ON CONFLICT DO NOTHING
""")
_ALL = text("""
    WITH counted AS (
        SELECT embedding_model AS model, count(*) AS memories FROM memory_nodes
        WHERE embedding_model IS NOT NULL GROUP BY 1
    ), beside AS (
        SELECT model, count(*) AS memories FROM next_vectors GROUP BY 1
    )
    SELECT model, m.spec, m.dimensions, m.state, m.active_since AS since, m.replaces, m.everything,
        coalesce(c.memories, 0) AS memories, coalesce(b.memories, 0) AS beside
    FROM embedding_models m FULL JOIN counted c USING (model) FULL JOIN beside b USING (model)
    ORDER BY memories DESC, model
""")
_MOVE = text("""
    SELECT model, spec, dimensions, replaces, everything, position, active_since FROM embedding_models
    WHERE state = :state
""")
_BEGIN_MOVE = text("""
    INSERT INTO embedding_models (model, spec, state, replaces, everything)
    VALUES (:model, :spec, 'filling', :replaces, :everything)
    ON CONFLICT (model) DO UPDATE SET spec = excluded.spec, state = 'filling', replaces = excluded.replaces,
        everything = excluded.everything, position = NULL, active_since = NULL
    WHERE embedding_models.state = 'retired'
""")
_CANCEL = text("SELECT model FROM embedding_models WHERE state = 'filling' FOR UPDATE")
_DROP_VECTORS = text("DELETE FROM next_vectors WHERE model = :model")
_FORGET = text("DELETE FROM embedding_models WHERE model = :model AND state = 'filling'")
_IS_WANTED = text("SELECT FROM embedding_models WHERE model = :model AND state <> 'retired' FOR SHARE")
_POSITION = text("UPDATE embedding_models SET position = :position WHERE model = :model")
_MODEL: BindParameter[str] = bindparam("model")
_IS_STALE = and_(
    *(_N.embedding.is_not(None), _N.embedding_model != _MODEL),
    or_(bindparam("everything", type_=Boolean), _N.embedding_model == bindparam("replaces")),
    ~exists().where(_V.node_id == _N.node_id, _V.group_id == _N.group_id, _V.model == _MODEL),
)
_LEFT = select(func.count()).select_from(_N).where(_IS_STALE)
_SAME_TEXT = aliased(_N)
_STORED = select(_N.node_id, _N.embedding).where(_N.embedding_model == _MODEL, _N.embedding.is_not(None))
_REUSE = (
    select(_V.node_id)
    .join(_SAME_TEXT, and_(_SAME_TEXT.node_id == _V.node_id, _SAME_TEXT.group_id == _V.group_id))
    .where(
        _SAME_TEXT.group_id == _N.group_id,
        _SAME_TEXT.key_hash == _N.key_hash,
        _SAME_TEXT.embedding.is_not(None),
        _V.model == _MODEL,
    )
    .limit(1)
)
_TO_EMBED = (
    select(_N.node_id, _N.group_id, _N.embedding_key, _N.key_hash, _REUSE.scalar_subquery().label("reuse"))
    .where(_N.node_id > bindparam("after"), _IS_STALE)
    .order_by(_N.node_id)
    .limit(bindparam("limit"))
)
# A vector of a move that was given up may still be there: it is replaced. FOR KEY SHARE: the node stays until
# then.
_PUT = text("""
    INSERT INTO next_vectors (node_id, group_id, model, embedding)
    SELECT node_id, group_id, :model, :vector FROM memory_nodes WHERE node_id = :id
    AND group_id = :group FOR KEY SHARE
    ON CONFLICT (node_id, group_id) DO UPDATE SET model = excluded.model, embedding = excluded.embedding
""")
_COPY = text("""
    INSERT INTO next_vectors (node_id, group_id, model, embedding)
    SELECT n.node_id, n.group_id, :model, v.embedding
    FROM unnest(CAST(:ids AS uuid[]), CAST(:groups AS text[]), CAST(:others AS uuid[])) AS pair(node_id,
    group_id, other_id)
        JOIN next_vectors v ON v.node_id = pair.other_id AND v.group_id = pair.group_id AND v.model = :model
        JOIN memory_nodes n ON n.node_id = pair.node_id AND n.group_id = pair.group_id
    FOR KEY SHARE OF n
    ON CONFLICT (node_id, group_id) DO UPDATE SET model = excluded.model, embedding = excluded.embedding
""")
_LOCK = text("SELECT FROM embedding_models WHERE state IN ('active', 'filling') ORDER BY model FOR UPDATE")
_RETIRE = text("UPDATE embedding_models SET state = 'retired' WHERE state = 'active'")
_ACTIVATE = text("""
    UPDATE embedding_models SET state = 'active', active_since = clock_timestamp(), position = NULL
    WHERE model = :model
""")
_SINCE = text("""
    SELECT CAST(extract(epoch FROM clock_timestamp() - active_since) AS float8) FROM embedding_models
    WHERE state = 'active'
""")
_UNFOLDED = text("SELECT count(*) FROM next_vectors WHERE model = :model")
_TO_FOLD = text("""
    SELECT node_id, group_id FROM next_vectors WHERE model = :model ORDER BY node_id, group_id LIMIT :limit
""")
_FOLD = text("""
    WITH moved AS (
        DELETE FROM next_vectors v USING unnest(CAST(:ids AS uuid[]), CAST(:groups AS text[])) AS t(node_id,
        group_id)
        WHERE v.node_id = t.node_id AND v.group_id = t.group_id AND v.model = :model
        RETURNING v.node_id, v.group_id, v.embedding
    )
    UPDATE memory_nodes n SET embedding = moved.embedding, embedding_model = :model, changed_xid =
    pg_current_xact_id()
    FROM moved WHERE n.node_id = moved.node_id AND n.group_id = moved.group_id
""")
