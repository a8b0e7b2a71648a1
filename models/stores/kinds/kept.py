"""What the service does for the stores that it keeps: one :class:`Kept` a type, listed in :mod:`models.stores.kinds.catalogue`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from jiyi.protocol.stores.asking import SavedStore, UpdateStore, WrittenItem
from models.db.actions import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptStore:
    """A store of the group as a transaction sees it."""

    store_id: UUID
    group_id: str
    run_id: str
    name: str
    type: str
    #: Of its type's model, its secrets included.
    config: Any
    revision: int
    generation: int
    state: str
    state_reason: str
    loaded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a type of store does, each in the transaction of the action that asks for it."""

    #: Check a declaration of a group, whose path is the last argument, for what only the service knows: folders, addresses.
    #: Raises :class:`jiyi.errors.ConfigError`.
    check: Callable[[str, BaseModel, str], None]
    #: A graph begins to use it: read its file the first time, owe the work that brings it up to date. Waits for none.
    load: Callable[[Context, KeptStore], None]
    update: Callable[[Context, KeptStore, UpdateStore], WrittenItem]
    #: Write it to the file of its path, if it has one.
    save: Callable[[Context, KeptStore], SavedStore]
    #: Owe the work that makes its index anew; returns how many items or files there are.
    reindex: Callable[[Context, KeptStore], int]
