"""``client.people``: who may sign in."""

from __future__ import annotations

from collections.abc import Sequence

from jiyi.client.calls import Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.errors import InvalidRequest
from jiyi.protocol.accounts import AddPerson, ListPeople, Person, PersonRequest, Role, SetPassword
from jiyi.protocol.passwords import hash_password, password_problem

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
