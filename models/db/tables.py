"""Imports the tables of all subjects, so that alembic's metadata is whole."""

from __future__ import annotations

from models.accounts import tables as accounts
from models.conversations import tables as conversations
from models.db.base import Base
from models.erasure import tables as erasure
from models.growth.artifacts import tables as growth_artifacts
from models.growth.trajectories import tables as growth_trajectories
from models.memory import tables as memory
from models.operations import tables as operations
from models.queue import tables as queue
from models.reflection import tables as reflection
from models.retrieval import tables as retrieval
from models.tiers import tables as tiers

__all__ = [
    "Base",
    "accounts",
    "conversations",
    "erasure",
    "growth_artifacts",
    "growth_trajectories",
    "memory",
    "operations",
    "queue",
    "reflection",
    "retrieval",
    "tiers",
]
