"""What every table (``models/<subject>/tables.py``) shares: base, column types, defaults."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import Double, ForeignKeyConstraint, Index, MetaData, Text, Uuid, text
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import UserDefinedType

#: Names that alembic can rely on when it drops or alters a constraint.
NAMING = {
    "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    "uq": "%(table_name)s_%(column_0_N_name)s_key",
    "ck": "%(table_name)s_%(constraint_name)s_check",
    "fk": "%(table_name)s_%(column_0_name)s_fkey",
    "pk": "%(table_name)s_pkey",
}


Timestamp = TIMESTAMP(timezone=True)


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    #: PostgreSQL's own names of the types, which COPY needs.
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        float: Double,
        str: Text,
        bytes: BYTEA,
        datetime: Timestamp,
        dict[str, Any]: JSONB,
        list[Any]: JSONB,
        list[str]: ARRAY(Text),
        list[UUID]: ARRAY(Uuid),
    }


class XID8(UserDefinedType[int]):
    """PostgreSQL's 64-bit transaction id."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


NOW = text("now()")
EMPTY_OBJECT = text("'{}'::jsonb")
EMPTY_LIST = text("'[]'::jsonb")
NO_TEXTS, NO_IDS = text("'{}'::text[]"), text("'{}'::uuid[]")

#: Rows that are rewritten all the time: room for updates within the page, and an early vacuum.
HOT = {"postgresql_with": {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02}}


def of_agent() -> ForeignKeyConstraint:
    """The rows belong to an agent (``group_id``, ``agent_id``) and are deleted with it."""
    return ForeignKeyConstraint(
        ["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE"
    )


def of_memory() -> ForeignKeyConstraint:
    """The rows belong to a memory (``node_id``, ``group_id``) and are deleted with it."""
    return ForeignKeyConstraint(
        ["node_id", "group_id"], ["memory_nodes.node_id", "memory_nodes.group_id"], ondelete="CASCADE"
    )


def partial_index(name: str | None, where: str, *columns: Any, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, postgresql_where=text(where))
