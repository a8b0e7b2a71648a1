"""Calls that clients before version 0.2 make about people, where their form has changed since."""

from __future__ import annotations

from jiyi.protocol.accounts import Person, PersonRequest, UserName
from jiyi.protocol.queries import Request
from models.accounts.actions import disable_person, enable_person
from models.db.actions import Actor
from tasks.framework.rpc import formerly


class SwitchPerson(Request):
    """Disable somebody, or enable them again."""

    name: UserName
    enable: bool = False


@formerly("inspect.disable_user", SwitchPerson, scope="operator")
def disable_user(actor: Actor, query: SwitchPerson) -> Person:
    """Goes with version 0.3. Safe to repeat because who is disabled stays so."""
    action = enable_person if query.enable else disable_person
    return action.perform(actor, PersonRequest(name=query.name))
