"""Whose rows a piece of work may see: PostgreSQL's row-level security lets it see no others (design §5).

Whoever begins a piece of work says for whom: an answer, a web request or a batch of work for its groups, a scheduled job
for the whole service. What says nothing sees nothing. ``models.base`` tells PostgreSQL at the start of each transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """``groups`` may be seen; or everything, with ``whole_service``."""

    groups: tuple[str, ...] = ()
    whole_service: bool = False


_NOBODY = Scope()
_scope: ContextVar[Scope] = ContextVar("jiyi_scope", default=_NOBODY)


def current() -> Scope:
    return _scope.get()


@contextmanager
def for_groups(*group_ids: str) -> Iterator[None]:
    """What is done within is done for these groups alone."""
    token = _scope.set(Scope(groups=tuple(dict.fromkeys(group_ids))))
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def whole_service() -> Iterator[None]:
    """What is done within may look across groups: scheduled jobs, claims of work, the operator's overview."""
    token = _scope.set(Scope(whole_service=True))
    try:
        yield
    finally:
        _scope.reset(token)
