"""Types of stores by name: the built-in ones, and those of other people's packages.

A type is registered with :func:`register_memory_store`, or by an entry point of the group ``jiyi.stores``
whose object does so when it is loaded. Nothing is imported before the type is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from pydantic import BaseModel

from jiyi.errors import RegistryError

#: Entry points that register types.
ENTRY_POINTS = "jiyi.stores"
#: Modules that register the built-in types, by name.
BUILT_IN = dict.fromkeys(("simple", "file", "blackboard", "memory", "mem0"), "jiyi.stores.store")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreType:
    """A registered type."""

    name: str
    config_cls: type[BaseModel]
    #: Makes a store (:class:`jiyi.stores.store.Store`) of its declaration and a
    #: :class:`jiyi.stores.store.Surroundings`. None: the service keeps stores of this type.
    factory: Callable[[Any, Any], Any] | None
    #: What it is for, in a sentence.
    summary: str

    @property
    def kept_by_service(self) -> bool:
        """Whether the service keeps such stores; others are the graph's program's own."""
        return self.factory is None


_TYPES: dict[str, StoreType] = {}
_LOCK = threading.RLock()


def register_memory_store(
    name: str, *, config_cls: type[BaseModel], factory: Callable[[Any, Any], Any] | None = None, summary: str
) -> None:
    """Make a type of store known.

    Args:
        name: its ``type`` in declarations.
        config_cls: a pydantic model of its ``config``.
        factory: makes a store of its declaration and its surroundings (:mod:`jiyi.stores.store`); only what
        the service keeps has none.
        summary: what it is for, in a sentence.

    Raises:
        RegistryError: there is a type of that name.
    """
    with _LOCK:
        if name in _TYPES:
            there = _TYPES[name].config_cls.__qualname__
            raise RegistryError(f"the type {name!r} is registered already, for {there}: choose another name")
        _TYPES[name] = StoreType(name=name, config_cls=config_cls, factory=factory, summary=summary)


def store_type(name: str) -> StoreType | None:
    """The type of that name, loaded if it has to be; None: there is none.

    Raises:
        RegistryError: the package that has it cannot be loaded.
    """
    with _LOCK:
        if name not in _TYPES:
            _load(name)
        return _TYPES.get(name)


def type_names() -> list[str]:
    """Names of all types, loaded or not."""
    return sorted({*BUILT_IN, *_TYPES, *(one.name for one in entry_points(group=ENTRY_POINTS))})


def store_types() -> Mapping[str, StoreType]:
    """Every type by name."""
    types = ((name, store_type(name)) for name in type_names())
    return {name: one for name, one in types if one is not None}


def _load(name: str) -> None:
    if name in BUILT_IN:
        import_module(BUILT_IN[name])
        return
    for one in entry_points(group=ENTRY_POINTS):
        if one.name == name:
            try:
                one.load()
            except RegistryError:
                raise
            except Exception as error:  # whatever another package does when it is imported
                raise RegistryError(
                    f"the type {name!r} cannot be loaded from {one.value}: {type(error).__name__}: {error}"
                ) from error
