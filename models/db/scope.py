"""Whose rows a piece of work may see: PostgreSQL's row-level security lets it see no others (design §5).

Whoever begins a piece of work says for whom: an answer, a web request or a batch of work for its groups, a scheduled job
for the whole service. What says nothing sees nothing. ``models.db.connection`` tells PostgreSQL at the start of each transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
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


def for_groups(*group_ids: str) -> AbstractContextManager[None]:
    """What is done within is done for these groups alone."""
    return within(Scope(groups=tuple(sorted(set(group_ids)))))


def narrowed_to(group_id: str) -> AbstractContextManager[None]:
    """What is done within is done for this group; if the current scope has other groups only, for those: it is never widened."""
    begun = current()
    return within(begun) if begun.groups and group_id not in begun.groups else for_groups(group_id)


def whole_service() -> AbstractContextManager[None]:
    """What is done within may look across groups: scheduled jobs, claims of work, the operator's overview.

    ``tests/unit/db/test_scope.py`` names the modules that may call it.
    """
    return within(Scope(whole_service=True))


@contextmanager
def within(scope: Scope) -> Iterator[None]:
    """What is done within is done for a scope that was the current one before, perhaps in another thread."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)
