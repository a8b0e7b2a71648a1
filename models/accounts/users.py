"""People who sign in to the admin, and what each role may do.

The table is the whole service's: use it within ``whole_service()``. All that changes something leaves a row in the audit
log, in the caller's transaction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args
from uuid import UUID

from sqlalchemy import Connection, text
from uuid6 import uuid7

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.accounts import USER_NAME
from models.accounts import audit

Role = Literal["operator", "admin", "viewer"]
ROLES: tuple[Role, ...] = get_args(Role)
#: What each may do; an operator in every group.
SCOPES: dict[str, frozenset[str]] = {
    "viewer": frozenset({"read"}),
    "admin": frozenset({"publish", "read", "admin"}),
    "operator": frozenset({"publish", "read", "admin", "operator"}),
}
#: Seconds between two notes that somebody was seen.
SEEN_SECONDS = 60
MAX_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class User:
    user_id: UUID
    name: str
    password_hash: str
    role: str
    #: None: all.
    groups: tuple[str, ...] | None
    epoch: int
    disabled: bool

    @property
    def actor(self) -> str:
        """For the audit log."""
        return f"user:{self.name}"

    @property
    def scopes(self) -> frozenset[str]:
        return SCOPES[self.role]


def any_at_all(connection: Connection) -> bool:
    return bool(connection.execute(_ANY).scalar_one())


def by_id(connection: Connection, user_id: UUID) -> User | None:
    return _user(connection, _BY_ID, {"id": user_id})


def by_name(connection: Connection, name: str) -> User | None:
    return _user(connection, _BY_NAME, {"name": name})


def listed(connection: Connection) -> list[dict[str, Any]]:
    """Everybody, by name, without their passwords' hashes."""
    return [dict(row) for row in connection.execute(_LISTED, {"limit": MAX_LISTED}).mappings()]


def create(connection: Connection, *, name: str, password_hash: str, role: str, groups: Sequence[str] | None, actor: str) -> dict[str, Any]:
    """A new person; the row as in :func:`listed`. ``groups`` None: all, as every operator's are.

    Raises:
        InvalidRequest: the name is taken, or role and groups do not fit.
    """
    if not re.fullmatch(USER_NAME, name) or name.endswith("\n"):
        raise InvalidRequest(["name: 1 to 64 letters, digits and . @ + - _"])
    if role not in ROLES:
        raise InvalidRequest([f"role: must be one of {', '.join(ROLES)}"])
    if role == "operator" and groups is not None:
        raise InvalidRequest(["groups: an operator sees all of them; give none"])
    if groups is not None and not groups:
        raise InvalidRequest(["groups: name at least one, or leave them out for all"])
    user_id = uuid7()
    row = {"id": user_id, "name": name, "hash": password_hash, "role": role}
    made = connection.execute(_CREATE, {**row, "groups": None if groups is None else sorted(set(groups))}).rowcount
    if not made:
        raise InvalidRequest([f"name: {name!r} is taken"])
    _record(connection, name, actor, "user created", role=role, groups=groups)
    return _one(connection, user_id)


def set_password(connection: Connection, name: str, password_hash: str, *, actor: str) -> dict[str, Any]:
    """All sessions of this person end. Raises :class:`NotFound`."""
    return _change(connection, _PASSWORD, {"name": name, "hash": password_hash}, actor, "password changed")


def disable(connection: Connection, name: str, *, actor: str) -> dict[str, Any]:
    """Who is disabled cannot sign in, and every session ends.

    Raises:
        NotFound: nobody has the name.
        InvalidRequest: it is the last operator.
    """
    connection.execute(_LOCK_OPERATORS)  # two operators that disable each other take turns
    found = by_name(connection, name)
    if found is not None and found.role == "operator" and not found.disabled:
        others = connection.execute(_OTHER_OPERATORS, {"name": name}).scalar_one()
        if not others:
            raise InvalidRequest([f"name: {name!r} is the last operator; add another one first"])
    return _change(connection, _DISABLE, {"name": name}, actor, "user disabled")


def enable(connection: Connection, name: str, *, actor: str) -> dict[str, Any]:
    """Who was disabled may sign in again. Raises :class:`NotFound`."""
    return _change(connection, _ENABLE, {"name": name}, actor, "user enabled")


def sign_out(connection: Connection, user: User) -> None:
    """All sessions of this person end: a copy of the cookie is worth nothing any more."""
    connection.execute(_NEXT_EPOCH, {"id": user.user_id})
    record(connection, user.name, "signed out")


def seen(connection: Connection, user_id: UUID) -> None:
    """Note that somebody was here, unless that was noted within the last minute."""
    connection.execute(_SEEN, {"id": user_id, "seconds": SEEN_SECONDS})


def record(connection: Connection, name: str | None, action: str, **details: Any) -> None:
    """Of signing in and out. ``name`` None: nobody of this service, whatever was typed; that may have been a password."""
    who = f"user:{name}" if name is not None else "nobody"
    audit.record(connection, group_id=None, actor=who, action=action, target=who, **details)


def _record(connection: Connection, name: str, actor: str, action: str, **details: Any) -> None:
    audit.record(connection, group_id=None, actor=actor, action=action, target=f"user:{name}", **details)


def _change(connection: Connection, statement: Any, parameters: dict[str, Any], actor: str, action: str) -> dict[str, Any]:
    user_id = connection.execute(statement, parameters).scalar_one_or_none()
    if user_id is None:
        raise NotFound(f"name: nobody here is called {parameters['name']!r}; see `jiyi users list`")
    _record(connection, parameters["name"], actor, action)
    return _one(connection, user_id)


def _user(connection: Connection, statement: Any, parameters: dict[str, Any]) -> User | None:
    row = connection.execute(statement, parameters).one_or_none()
    if row is None:
        return None
    groups = None if row.groups is None else tuple(row.groups)
    return User(row.user_id, row.name, row.password_hash, row.role, groups, row.epoch, row.disabled_at is not None)


def _one(connection: Connection, user_id: UUID) -> dict[str, Any]:
    return dict(connection.execute(_ONE, {"id": user_id}).mappings().one())


_SHOWN = "user_id, name, role, groups, created_at, last_seen_at, disabled_at"
_FULL = "SELECT user_id, name, password_hash, role, groups, epoch, disabled_at FROM users"
_ANY = text("SELECT EXISTS (SELECT FROM users)")
_BY_ID = text(f"{_FULL} WHERE user_id = :id")
_BY_NAME = text(f"{_FULL} WHERE name = :name")
_ONE = text(f"SELECT {_SHOWN} FROM users WHERE user_id = :id")
_LISTED = text(f"SELECT {_SHOWN} FROM users ORDER BY name LIMIT :limit")
_CREATE = text("""
    INSERT INTO users (user_id, name, password_hash, role, groups) VALUES (:id, :name, :hash, :role, :groups)
    ON CONFLICT (name) DO NOTHING
""")
_PASSWORD = text("UPDATE users SET password_hash = :hash, epoch = epoch + 1 WHERE name = :name RETURNING user_id")
_DISABLE = text("""
    UPDATE users SET disabled_at = coalesce(disabled_at, now()), epoch = epoch + 1 WHERE name = :name RETURNING user_id
""")
_ENABLE = text("UPDATE users SET disabled_at = NULL, epoch = epoch + 1 WHERE name = :name RETURNING user_id")
_NEXT_EPOCH = text("UPDATE users SET epoch = epoch + 1 WHERE user_id = :id")
_LOCK_OPERATORS = text("SELECT FROM users WHERE role = 'operator' ORDER BY user_id FOR UPDATE")
_OTHER_OPERATORS = text("SELECT count(*) FROM users WHERE role = 'operator' AND disabled_at IS NULL AND name <> :name")
_SEEN = text("""
    UPDATE users SET last_seen_at = now()
    WHERE user_id = :id AND (last_seen_at IS NULL OR last_seen_at < now() - make_interval(secs => :seconds))
""")
