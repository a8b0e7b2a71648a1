"""``client.keys``: API keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jiyi.client.calls import Namespace, W
from jiyi.client.steps import Steps, verb
from jiyi.errors import InvalidRequest
from jiyi.protocol import accounts as wire
from jiyi.protocol.wire.signatures import KeyScope, new_key

#: What a new key may, and how long a replaced one works on, unless told otherwise.
DEFAULT_SCOPES: tuple[KeyScope, ...] = ("publish", "read")
DEFAULT_GRACE = timedelta(hours=24)
ListOfKeys = list[wire.Key]


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A key that was just made. Its text cannot be shown again: the service keeps nothing that it follows from."""

    text: str = field(repr=False)
    key: wire.Key


class Keys(Namespace[W]):
    """API keys of the group, or of all groups."""

    @verb
    def create(self, name: str, *, scopes: Sequence[KeyScope] = DEFAULT_SCOPES, expires_at: datetime | None = None) -> Steps[CreatedKey]:
        """Make a key of the group; with the scope ``operator`` one for all groups. Its secret does not leave this process."""
        key = new_key()
        return CreatedKey(
            str(key), (yield from self._call("keys.create", key=wire.NewKey.of(key), name=name, scopes=list(scopes), expires_at=expires_at))
        )

    @verb
    def rotate(self, key_id: str, *, grace: timedelta = DEFAULT_GRACE) -> Steps[CreatedKey]:
        """Make a key with the same rights in place of one, which works on for a while."""
        key = new_key()
        return CreatedKey(str(key), (yield from self._call("keys.rotate", id=key_id, key=wire.NewKey.of(key), grace=grace)))

    @verb
    def revoke(self, key_id: str) -> Steps[wire.Key]:
        """End a key, for good. It may work for five more seconds."""
        return self._call("keys.revoke", id=key_id)

    @verb
    def list(self, *, all_groups: bool = False) -> Steps[ListOfKeys]:
        """Keys and when they were used, newest first."""
        return self._call("keys.list", all_groups=all_groups)


ListOfPeople = list[wire.Person]


class People(Namespace[W]):
    """People who may sign in. They are the whole service's; passwords are hashed here, and only the hash travels."""

    @verb
    def add(
        self, name: str, password: str, *, role: wire.Role, groups: Sequence[str] | None = None, all_groups: bool = False
    ) -> Steps[wire.Person]:
        """Let somebody sign in, for ``groups`` or explicitly for ``all_groups``; an operator always has every group."""
        named = None if groups is None else list(groups)
        return self._call("people.add", name=name, password_hash=_hashed(password), role=role, groups=named, all_groups=all_groups)

    @verb
    def set_password(self, name: str, password: str) -> Steps[wire.Person]:
        """Give somebody a new password. All their sessions end, and a lock after wrong passwords opens."""
        return self._call("people.set_password", name=name, password_hash=_hashed(password))

    @verb
    def disable(self, name: str) -> Steps[wire.Person]:
        """Keep somebody from signing in; all their sessions end."""
        return self._call("people.disable", name=name)

    @verb
    def enable(self, name: str) -> Steps[wire.Person]:
        """Let somebody who was disabled sign in again."""
        return self._call("people.enable", name=name)

    @verb
    def list(self) -> Steps[ListOfPeople]:
        """Everybody who may sign in, or might once, by name."""
        return self._call("people.list")


def _hashed(password: str) -> str:
    problem = wire.password_problem(password)
    if problem:
        raise InvalidRequest([f"password: {problem}"])
    return wire.hash_password(password)
