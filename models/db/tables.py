"""Imports the tables of all subjects, so that alembic's metadata is whole."""

from __future__ import annotations

from models.accounts import tables as accounts
from models.conversations import tables as conversations
from models.db.base import Base
from models.erasure import tables as erasure
from models.growth.artifacts import tables as growth_artifacts
from models.growth.heartbeat import tables as heartbeat_tables
from models.growth.identity import tables as growth_identity
from models.growth.pains import tables as growth_pains
from models.growth.reflections import tables as growth_reflections
from models.growth.schedules import tables as schedule_tables
from models.growth.tracking import tables as growth_tracking
from models.growth.trajectories import tables as growth_trajectories
from models.items import tables as items
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
    "conversations",
    "erasure",
    "growth_artifacts",
    "growth_identity",
    "growth_pains",
    "growth_reflections",
    "growth_tracking",
    "growth_trajectories",
    "heartbeat_tables",
    "items",
    "memory",
    "operations",
    "queue",
    "reflection",
    "retrieval",
    "schedule_tables",
    "stores",
    "tiers",
]
