"""``client.keys``: API keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jiyi.client.calls import Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.errors import InvalidRequest
from jiyi.protocol.accounts import (
    AddPerson,
    CreateKey,
    Key,
    ListKeys,
    ListPeople,
    NewKey,
    Person,
    PersonRequest,
    RevokeKey,
    Role,
    RotateKey,
    SetPassword,
    hash_password,
    password_problem,
)
from jiyi.protocol.wire.signatures import KeyScope, new_key

#: What a new key may, and how long a replaced one works on, unless told otherwise.
DEFAULT_SCOPES: tuple[KeyScope, ...] = ("publish", "read")
DEFAULT_GRACE = timedelta(hours=24)
ListOfKeys = list[Key]


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A key that was just made. Its text cannot be shown again: the service keeps nothing that it follows from."""

    text: str = field(repr=False)
    key: Key


class Keys(Namespace[W]):
    """API keys of the group, or of all groups."""

    @verb
    def create(self, name: str, *, scopes: Sequence[KeyScope] = DEFAULT_SCOPES, expires_at: datetime | None = None) -> Steps[CreatedKey]:
        """Make a key of the group; with the scope ``operator`` one for all groups. Its secret does not leave this process."""
        key = new_key()
        request = checked(CreateKey, key=NewKey.of(key), name=name, scopes=list(scopes), expires_at=expires_at)
        return CreatedKey(str(key), (yield from self._act("keys.create", request, Key)))

    @verb
    def rotate(self, key_id: str, *, grace: timedelta = DEFAULT_GRACE) -> Steps[CreatedKey]:
        """Make a key with the same rights in place of one, which works on for a while."""
        key = new_key()
        request = checked(RotateKey, key_id=key_id, key=NewKey.of(key), grace=grace)
        return CreatedKey(str(key), (yield from self._act("keys.rotate", request, Key)))

    @verb
    def revoke(self, key_id: str) -> Steps[Key]:
        """End a key, for good. It may work for five more seconds."""
        return self._act("keys.revoke", checked(RevokeKey, key_id=key_id), Key)

    @verb
    def list(self, *, all_groups: bool = False) -> Steps[ListOfKeys]:
        """Keys and when they were used, newest first."""
        return self._ask("keys.list", checked(ListKeys, all_groups=all_groups), ListOfKeys)


ListOfPeople = list[Person]


class People(Namespace[W]):
    """People who may sign in. They are the whole service's; passwords are hashed here, and only the hash travels."""

    @verb
    def add(self, name: str, password: str, *, role: Role, groups: Sequence[str] | None = None, all_groups: bool = False) -> Steps[Person]:
        """Let somebody sign in, for ``groups`` or explicitly for ``all_groups``; an operator always has every group."""
        named = None if groups is None else list(groups)
        request = checked(AddPerson, name=name, password_hash=_hashed(password), role=role, groups=named, all_groups=all_groups)
        return self._act("people.add", request, Person)

    @verb
    def set_password(self, name: str, password: str) -> Steps[Person]:
        """Give somebody a new password. All their sessions end, and a lock after wrong passwords opens."""
        request = checked(SetPassword, name=name, password_hash=_hashed(password))
        return self._act("people.set_password", request, Person)

    @verb
    def disable(self, name: str) -> Steps[Person]:
        """Keep somebody from signing in; all their sessions end."""
        return self._act("people.disable", checked(PersonRequest, name=name), Person)

    @verb
    def enable(self, name: str) -> Steps[Person]:
        """Let somebody who was disabled sign in again."""
        return self._act("people.enable", checked(PersonRequest, name=name), Person)

    @verb
    def list(self) -> Steps[ListOfPeople]:
        """Everybody who may sign in, or might once, by name."""
        return self._ask("people.list", ListPeople(), ListOfPeople)


def _hashed(password: str) -> str:
    problem = password_problem(password)
    if problem:
        raise InvalidRequest([f"password: {problem}"])
    return hash_password(password)
