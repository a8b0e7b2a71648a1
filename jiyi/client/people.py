"""``client.people``: who may sign in."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter

from jiyi.accounts.passwords import hash_password, password_problem
from jiyi.client.calls import Calls, checked
from jiyi.errors import InvalidRequest
from jiyi.protocol.accounts import AddPerson, ListPeople, Person, PersonRequest, Role, SetPassword

_PEOPLE = TypeAdapter(list[Person])


class People:
    """People who may sign in. They are the whole service's; passwords are hashed here, and only the hash travels."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def add(self, name: str, password: str, *, role: Role, groups: Sequence[str] | None = None) -> Person:
        """Let somebody sign in; ``groups`` None: for all of them."""
        named = None if groups is None else list(groups)
        request = checked(AddPerson, name=name, password_hash=_hashed(password), role=role, groups=named)
        return Person.model_validate(self._calls.act("people.add", request))

    def set_password(self, name: str, password: str) -> Person:
        """Give somebody a new password. All their sessions end, and a lock after wrong passwords opens."""
        request = checked(SetPassword, name=name, password_hash=_hashed(password))
        return Person.model_validate(self._calls.act("people.set_password", request))

    def disable(self, name: str) -> Person:
        """Keep somebody from signing in; all their sessions end."""
        return Person.model_validate(self._calls.act("people.disable", checked(PersonRequest, name=name)))

    def enable(self, name: str) -> Person:
        """Let somebody who was disabled sign in again."""
        return Person.model_validate(self._calls.act("people.enable", checked(PersonRequest, name=name)))

    def list(self) -> list[Person]:
        """Everybody who may sign in, or might once, by name."""
        return _PEOPLE.validate_python(self._calls.ask("people.list", ListPeople()))


def _hashed(password: str) -> str:
    problem = password_problem(password)
    if problem:
        raise InvalidRequest([f"password: {problem}"])
    return hash_password(password)
