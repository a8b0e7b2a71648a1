"""Cases of the accounts' actions."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from jiyi.protocol.accounts import NewKey, hash_password
from jiyi.protocol.wire.signatures import new_key
from models.accounts import actions
from tests.integration.actions.cases import MADE, case, do
from tests.integration.memory.test_inbox import rows

HASH = hash_password("a good old password")
ANOTHER = NewKey.of(new_key())


def a_key(group: str) -> str:
    """The id of a key of the group."""
    made = do(group, actions.create_key, key=NewKey.of(new_key()), name="crawler", scopes=["publish"])
    return str(made.key_id)


def keys(group: str, _made: Any) -> list[Any]:
    """The group's keys, without ids and times."""
    ends = "expires_at IS NOT NULL AS expires, revoked_at IS NOT NULL AS revoked"
    return rows(f"SELECT name, scopes, {ends} FROM api_keys WHERE group_id = :g ORDER BY name", g=group)


def a_name(_group: str) -> str:
    return f"mia-{uuid4().hex[:8]}"


def somebody(group: str, *, disabled: bool = False) -> str:
    name, who = a_name(group), {"password_hash": HASH, "role": "viewer", "groups": ["a"]}
    do(group, actions.add_person, operator=True, name=name, **who)
    if disabled:
        do(group, actions.update_person, operator=True, name=name, disabled=True)
    return name


CRAWLER = {"name": "crawler", "scopes": ["publish", "read"]}
CASES = (
    case(
        actions.create_key,
        lambda _group: NewKey.of(new_key()),
        {"key": MADE, **CRAWLER},
        effect=keys,
        admin=lambda _made: ("/keys", {"name": "crawler", "scope": ["publish", "read"], "days": "0"}),
    ),
    case(actions.rotate_key, a_key, {"id": MADE, "key": ANOTHER, "grace": "PT24H"}),
    case(actions.revoke_key, a_key, {"id": MADE}),
    case(
        actions.add_person,
        a_name,
        {"name": MADE, "password_hash": HASH, "role": "admin", "groups": ["b", "a"]},
    ),
    case(
        actions.set_password, somebody, {"name": MADE, "password_hash": hash_password("a good new password")}
    ),
    case(actions.update_person, somebody, {"name": MADE, "disabled": True}, "disable"),
    case(
        actions.update_person,
        lambda group: somebody(group, disabled=True),
        {"name": MADE, "disabled": False},
        "enable",
    ),
)
