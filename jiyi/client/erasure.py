"""``client.erasure``: erasing what is remembered of somebody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack
from uuid import UUID

from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, polled, verb
from jiyi.protocol import erasure as protocol
from jiyi.protocol.base import DEFAULT_PAGE
from jiyi.protocol.erasure import ErasurePreview, ErasureQuery, ErasureRequested, ErasureRows, ErasuresQuery, ErasureState

#: Seconds for a preview, which looks through everything.
PREVIEW_SECONDS = 60.0


class What(TypedDict, total=False):
    """Of :class:`jiyi.protocol.erasure.Erasure`: whom or what it is about."""

    agent_id: str
    person: str
    #: Other names of the person: short forms, other spellings, other scripts.
    aliases: Sequence[str]
    node_ids: Sequence[Id]


class Erasure(Namespace[W]):
    """Erasures of the group: of an agent, or of a person by all of their names, or of single memories."""

    @verb
    def preview(self, **what: Unpack[What]) -> Steps[ErasurePreview]:
        """What an erasure would take along. Changes nothing."""
        return self._ask("erasure.preview", checked(protocol.Erasure, **what), ErasurePreview, PREVIEW_SECONDS)

    @verb
    def request(self, *, delete_backups: bool = False, **what: Unpack[What]) -> Steps[UUID]:
        """Have it erased, with everything derived from it, for good; returns the erasure's id at once.

        Args:
            delete_backups: delete the backups of before, and make a new one.
            what: an agent, a person or memories, one of them.

        Raises:
            InvalidRequest: with a sentence per wrong field.
            NotFound: there is no such agent, or none of the memories.
        """
        request = checked(protocol.Erasure, **what, delete_backups=delete_backups)
        done = yield from self._act("erasure.request", request, ErasureRequested)
        return done.erasure_id

    @verb
    def get(self, erasure_id: Id) -> Steps[ErasureState]:
        """How far an erasure is, and its report when it is done."""
        return self._one(erasure_id)

    @verb
    def wait_for(self, erasure_id: Id, timeout: float) -> Steps[ErasureState]:
        """The erasure when it is done. Raises :class:`NoAnswer` after ``timeout`` seconds; it goes on by itself."""
        return polled(
            lambda: self._one(erasure_id),
            lambda found: found.state == "done",
            timeout,
            lambda found: f"the erasure {erasure_id} is {found.state}, at {found.step!r}, after {timeout:g} s; it goes on",
        )

    @verb
    def list(self, *, before: Id | None = None, limit: int = DEFAULT_PAGE) -> Steps[ErasureRows]:
        """A page of erasures, newest first; ``before`` is the ``next`` of the page before. Of names only hashes are kept."""
        request = checked(ErasuresQuery, before=before, limit=limit)
        return self._ask("erasure.list", request, ErasureRows)

    def _one(self, erasure_id: Id) -> Steps[ErasureState]:
        return self._ask("erasure.get", checked(ErasureQuery, erasure_id=erasure_id), ErasureState)
