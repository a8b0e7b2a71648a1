"""The methods of subjects that do more than ask an action: they make keys, hash passwords, wait for an
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jiyi.client.calls import Id, Namespace, W
from jiyi.client.steps import Steps, polled
from jiyi.client.verbs import verb
from jiyi.errors import InvalidRequest
from jiyi.protocol import accounts, operations
from jiyi.protocol.erasure import ErasureState
from jiyi.protocol.knowledge import IngestState
from jiyi.protocol.wire.signatures import KeyScope, new_key

#: By default: what a new key may, and how long a replaced one works on.
DEFAULT_SCOPES: tuple[KeyScope, ...] = ("publish", "read")
DEFAULT_GRACE = timedelta(hours=24)
#: What a job that is run now may take, in seconds.
JOB_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key. Its text cannot be shown again: the service keeps nothing that it follows from."""

    text: str = field(repr=False)
    key: accounts.Key


class KeysBase(Namespace[W]):
    """API keys of the group, or of all groups. Their secrets do not leave this process."""

    @verb
    def create(
        self, name: str, *, scopes: Sequence[KeyScope] = DEFAULT_SCOPES, expires_at: datetime | None = None
    ) -> Steps[CreatedKey]:
        """Make a key of the group; with the scope ``operator`` one for all groups."""
        key = new_key()
        fields: dict[str, Any] = {"name": name, "scopes": list(scopes), "expires_at": expires_at}
        return CreatedKey(
            str(key), (yield from self._call("keys.create", key=accounts.NewKey.of(key), **fields))
        )

    @verb
    def rotate(self, key_id: str, *, grace: timedelta = DEFAULT_GRACE) -> Steps[CreatedKey]:
        """Make a key with the same rights in place of one, which works on for a while."""
        key = new_key()
        created_key = yield from self._call(
            "keys.rotate", id=key_id, key=accounts.NewKey.of(key), grace=grace
        )
        return CreatedKey(str(key), created_key)


class PeopleBase(Namespace[W]):
    """People who may sign in to the whole service. Passwords are hashed here, and only the hash travels."""

    @verb
    def add(
        self,
        name: str,
        password: str,
        *,
        role: accounts.Role,
        groups: Sequence[str] | None = None,
        all_groups: bool = False,
    ) -> Steps[accounts.Person]:
        """Let somebody sign in, for ``groups`` or for ``all_groups``; an operator always has every group."""
        fields: dict[str, Any] = {
            "role": role,
            "groups": None if groups is None else list(groups),
            "all_groups": all_groups,
        }
        return self._call("people.add", name=name, password_hash=_hashed(password), **fields)

    @verb
    def set_password(self, name: str, password: str) -> Steps[accounts.Person]:
        """Give somebody a new password. All their sessions end, and a lock after wrong passwords opens."""
        return self._call("people.set_password", name=name, password_hash=_hashed(password))


class JobsBase(Namespace[W]):
    """Scheduled jobs. They are the whole service's, whatever the group."""

    @verb
    def run(
        self, job: str, *, whole_service: bool = True, timeout: float = JOB_SECONDS
    ) -> Steps[operations.Tick]:
        """Run a scheduled job now and wait for its end.

        Raises:
            NotFound: there is no such job.
            NoAnswer: it has not ended within ``timeout`` seconds, but goes on.
        """
        begun: operations.Tick = yield from self._call("jobs.run", job=job, whole_service=whole_service)

        def look() -> Steps[operations.Tick]:
            tick: operations.Tick | None = yield from self._call("jobs.tick", job=job, slot=begun.slot)
            return tick or begun

        late = f"{job} has not ended within {timeout:g} s; it goes on: see `jiyi jobs list`"
        return (yield from polled(look, lambda tick: tick.ended, timeout, lambda _: late))


class ErasureBase(Namespace[W]):
    """Erasures of the group: of an agent, or of a person by all of their names, or of single memories."""

    @verb
    def wait_for(self, erasure_id: Id, timeout: float) -> Steps[ErasureState]:
        """The erasure when it is done. Raises :class:`NoAnswer` after ``timeout`` seconds; it goes on by
        itself.
        """
        return polled(
            lambda: self._call("erasure.get", id=erasure_id),
            lambda erasure: erasure.state == "done",
            timeout,
            lambda erasure: (
                f"the erasure {erasure_id} is {erasure.state}, at {erasure.step!r}, after {timeout:g} s; it"
                " goes on"
            ),
        )


class QuarantineBase(Namespace[W]):
    """Texts of which nobody knows yet whether they hold."""

    @verb
    def wait_for(self, entry_id: Id, timeout: float | None = None) -> Steps[IngestState]:
        """What the filters said of an entry that is stored; waits for it.

        Raises:
            NoAnswer: it was not screened in time.
        """
        limit = self._wait(timeout)
        answer: IngestState = yield from polled(
            lambda: self._call("quarantine.outcome", id=entry_id),
            lambda outcome: outcome is not None,
            limit,
            lambda _: f"{entry_id} is in quarantine, but was not screened within {limit:g} s; it will be",
        )
        return answer


def _hashed(password: str) -> str:
    problem = accounts.password_problem(password)
    if problem:
        raise InvalidRequest([f"password: {problem}"])
    return accounts.hash_password(password)
