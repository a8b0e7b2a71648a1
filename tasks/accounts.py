"""Calls that clients before version 0.2 make about people, where their form has changed since."""

from __future__ import annotations

from jiyi.protocol.accounts import Person, PersonRequest, UserName
from jiyi.protocol.queries import Query
from models.accounts.actions import disable_person, enable_person
from models.db.actions import Actor
from tasks.framework.answering import answers


class SwitchPerson(Query):
    """Disable somebody, or enable them again."""

    name: UserName
    enable: bool = False


@answers("inspect.disable_user", SwitchPerson)
def disable_user(query: SwitchPerson) -> Person:
    """Goes with version 0.3. Safe to repeat because who is disabled stays so."""
    action = enable_person if query.enable else disable_person
    return action.perform(Actor(query.group_id, operator=True), PersonRequest(name=query.name))
