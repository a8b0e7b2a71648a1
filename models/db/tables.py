"""Imports the tables of all subjects, on or off, so that alembic's metadata is whole."""

from __future__ import annotations

from models.accounts import tables as accounts
from models.appointments import tables as appointments
from models.conversations import tables as conversations
from models.db.base import Base
from models.erasure import tables as erasure
from models.growth import tables as growth
from models.items import storage as items
from models.memory import tables as memory
from models.operations import tables as operations
from models.queue import tables as queue
from models.reflection import tables as reflection
from models.retrieval import tables as retrieval
from models.stores import tables as stores
from models.tiers import tables as tiers

__all__ = [
    "Base",
    "accounts",
    "appointments",
    "conversations",
    "erasure",
    "growth",
    "items",
    "memory",
    "operations",
    "queue",
    "reflection",
    "retrieval",
    "stores",
    "tiers",
]
