"""Cases of the accounts' actions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import text

from jiyi.protocol.accounts import (
    AddPerson,
    CreateKey,
    NewKey,
    RevokeKey,
    RotateKey,
    SetPassword,
    UpdatePerson,
    hash_password,
)
from jiyi.protocol.wire.signatures import new_key
from models.accounts import actions
from models.db.actions import Actor
from models.db.connection import unit_of_work
from tests.integration.actions.cases import Case

GRACE = timedelta(hours=24)
HASH = hash_password("a good old password")


def a_key(group: str) -> str:
    """The id of a key of the group."""
    wanted = CreateKey(key=NewKey.of(new_key()), name="crawler", scopes=["publish"])
    return actions.create_key.perform(Actor(group, "test"), wanted).key_id


def keys(group: str, _made: Any) -> list[Any]:
    """The group's keys, without ids and times."""
    with unit_of_work() as connection:
        return sorted(map(tuple, connection.execute(_KEYS, {"group": group})))


def a_name(_group: str) -> str:
    return f"mia-{uuid4().hex[:8]}"


def somebody(group: str) -> str:
    name = a_name(group)
    actions.add_person.perform(
        Actor(group, "test", operator=True),
        AddPerson(name=name, password_hash=HASH, role="viewer", groups=["a"]),
    )
    return name


def disabled(group: str) -> str:
    name = somebody(group)
    actions.update_person.perform(Actor(group, "test", operator=True), UpdatePerson(name=name, disabled=True))
    return name


CASES = (
    Case(
        action=actions.create_key,
        prepare=lambda _group: NewKey.of(new_key()),
        request=lambda made: CreateKey(key=made, name="crawler", scopes=["publish", "read"]),
        effect=keys,
        admin=lambda _made: ("/keys", {"name": "crawler", "scope": ["publish", "read"], "days": "0"}),
    ),
    Case(
        action=actions.rotate_key,
        prepare=a_key,
        request=lambda made: RotateKey(id=made, key=NewKey.of(new_key()), grace=GRACE),
    ),
    Case(action=actions.revoke_key, prepare=a_key, request=lambda made: RevokeKey(id=made)),
    Case(
        action=actions.add_person,
        prepare=a_name,
        request=lambda made: AddPerson(name=made, password_hash=HASH, role="admin", groups=["b", "a"]),
    ),
    Case(
        action=actions.set_password,
        prepare=somebody,
        request=lambda made: SetPassword(name=made, password_hash=hash_password("a good new password")),
    ),
    Case(
        action=actions.update_person,
        name="disable",
        prepare=somebody,
        request=lambda made: UpdatePerson(name=made, disabled=True),
    ),
    Case(
        action=actions.update_person,
        name="enable",
        prepare=disabled,
        request=lambda made: UpdatePerson(name=made, disabled=False),
    ),
)


_KEYS = text("""
    SELECT name, scopes, expires_at IS NOT NULL AS expires, revoked_at IS NOT NULL AS revoked
    FROM api_keys WHERE group_id = :group
""")
