"""Imports the tables of all subjects, on or off, so that alembic's metadata is whole."""

from __future__ import annotations

from importlib import import_module

from engine import subjects
from models.accounts import tables as accounts
from models.conversations import tables as conversations
from models.db.base import Base
from models.erasure import tables as erasure
from models.memory import tables as memory
from models.operations import tables as operations
from models.queue import tables as queue
from models.reflection import tables as reflection
from models.retrieval import tables as retrieval

__all__ = [
    "Base",
    "accounts",
    "conversations",
    "erasure",
    "memory",
    "operations",
    "queue",
    "reflection",
    "retrieval",
]

for subject in subjects.ALL.values():
    for module in subject.tables:
        import_module(module)
