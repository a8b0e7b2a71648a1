"""People who sign in to the admin, as stored, and what roles may do. Use it within ``whole_service()``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Executable, select, text, update
from sqlalchemy.dialects import postgresql
from uuid6 import uuid7

from jiyi.protocol.accounts import Person, Role
from jiyi.protocol.wire.signatures import KeyScope
from models.accounts import audit, tables
from models.accounts.tables import Group
from models.db.rows import columns, fetch

#: What each role may do; an operator in every group.
SCOPES: dict[Role, frozenset[KeyScope]] = {
    "viewer": frozenset({"read"}),
    "admin": frozenset({"publish", "read", "admin"}),
    "operator": frozenset({"publish", "read", "admin", "operator"}),
}
#: Seconds between two notes that somebody was seen.
SEEN_SECONDS = 60
MAX_LISTED = 1_000
_U = tables.UserRow
_SHOWN = select(*columns(Person, _U))
_FULL = select(_U.user_id, _U.name, _U.password_hash, _U.role, _U.groups, _U.epoch, _U.disabled_at)
#: Groups that the selector offers.
MAX_GROUPS = 200


@dataclass(frozen=True, slots=True)
class User:
    """A person with what signing in needs."""

    user_id: UUID
    name: str
    password_hash: str
    role: Role
    #: None: all.
    groups: tuple[str, ...] | None
    #: Sessions of an earlier epoch are over.
    epoch: int
    disabled: bool

    @property
    def actor(self) -> str:
        """For the audit log."""
        return f"user:{self.name}"

    @property
    def scopes(self) -> frozenset[KeyScope]:
        return SCOPES[self.role]


def any_at_all(connection: Connection) -> bool:
    """Whether anybody may sign in, or might once."""
    return bool(connection.execute(_ANY).scalar_one())


def by_id(connection: Connection, user_id: UUID) -> User | None:
    return _user(connection, _FULL.where(_U.user_id == user_id))


def by_name(connection: Connection, name: str) -> User | None:
    return _user(connection, _FULL.where(_U.name == name))


def listed(connection: Connection) -> list[Person]:
    """Everybody, by name, without their passwords' hashes."""
    return fetch(connection, Person, _SHOWN.order_by(_U.name).limit(MAX_LISTED))


def one(connection: Connection, name: str) -> Person:
    return fetch(connection, Person, _SHOWN.where(_U.name == name))[0]


def insert(
    connection: Connection, *, name: str, password_hash: str, role: Role, groups: Sequence[str] | None
) -> bool:
    """Store somebody. False if the name is taken."""
    row = {
        "name": name,
        "password_hash": password_hash,
        "role": role,
        "groups": None if groups is None else list(groups),
    }
    statement = (
        postgresql.insert(_U)
        .values(user_id=uuid7(), **row)
        .on_conflict_do_nothing(index_elements=["name"])
        .returning(_U.user_id)
    )
    return connection.execute(statement).scalar_one_or_none() is not None


def from_provider(
    connection: Connection,
    subject: str,
    *,
    name: str,
    password_hash: str,
    role: Role,
    groups: Sequence[str] | None,
) -> User | None:
    """Stored or updated as the provider says now; None if the name is another's."""
    row = {"role": role, "groups": None if groups is None else list(groups)}
    new = {"user_id": uuid7(), "subject": subject, "name": name, "password_hash": password_hash}
    if not connection.execute(update(_U).where(_U.subject == subject).values(**row)).rowcount:
        connection.execute(postgresql.insert(_U).values(**new, **row).on_conflict_do_nothing())
    return _user(connection, _FULL.where(_U.subject == subject))


def set_password(connection: Connection, name: str, password_hash: str) -> bool:
    """All sessions of this person end. False if nobody has the name."""
    return connection.execute(_PASSWORD, {"name": name, "hash": password_hash}).rowcount > 0


def is_last_operator(connection: Connection, name: str) -> bool:
    """Whether nobody else could run the service. Until the transaction ends none is switched elsewhere."""
    connection.execute(_LOCK_OPERATORS)  # two operators that disable each other take turns
    user = by_name(connection, name)
    if user is None or user.role != "operator" or user.disabled:
        return False
    return not connection.execute(_OTHER_OPERATORS, {"name": name}).scalar_one()


def set_disabled(connection: Connection, name: str, *, disabled: bool) -> bool:
    """Every session of this person ends. False if nobody has the name."""
    return connection.execute(_DISABLE if disabled else _ENABLE, {"name": name}).rowcount > 0


def sign_out(connection: Connection, user: User) -> None:
    """All sessions of this person end: a copy of the cookie is worth nothing any more."""
    connection.execute(_NEXT_EPOCH, {"id": user.user_id})
    record(connection, user.name, "signed out")


def seen(connection: Connection, user_id: UUID) -> None:
    """Note that somebody was here, unless that was noted within the last minute."""
    connection.execute(_SEEN, {"id": user_id, "seconds": SEEN_SECONDS})


def record(connection: Connection, name: str | None, action: str, **details: Any) -> None:
    """Audit signing in and out. ``name`` None: nobody's; what was typed may have been a password."""
    who = f"user:{name}" if name is not None else "nobody"
    audit.record(connection, group_id=None, actor=who, action=action, target=who, **details)


def _user(connection: Connection, statement: Executable) -> User | None:
    row = connection.execute(statement).one_or_none()
    if row is None:
        return None
    groups = None if row.groups is None else tuple(row.groups)
    return User(
        row.user_id, row.name, row.password_hash, row.role, groups, row.epoch, row.disabled_at is not None
    )


def home_group(connection: Connection, configured: str) -> str | None:
    """The configured group, unless only others have memories: then the fullest; None without memories."""
    if connection.execute(_HAS_MEMORIES, {"group": configured}).scalar_one_or_none() is not None:
        return configured
    fullest: str | None = connection.execute(_FULLEST).scalar_one_or_none()
    return fullest


def groups(connection: Connection) -> list[str]:
    return list(
        connection.execute(select(Group.group_id).order_by(Group.group_id).limit(MAX_GROUPS)).scalars()
    )


_ANY = text("SELECT EXISTS (SELECT FROM users)")
_PASSWORD = text("UPDATE users SET password_hash = :hash, epoch = epoch + 1 WHERE name = :name")
_DISABLE = text(
    "UPDATE users SET disabled_at = coalesce(disabled_at, now()), epoch = epoch + 1 WHERE name = :name"
)
_ENABLE = text("UPDATE users SET disabled_at = NULL, epoch = epoch + 1 WHERE name = :name")
_NEXT_EPOCH = text("UPDATE users SET epoch = epoch + 1 WHERE user_id = :id")
_LOCK_OPERATORS = text("SELECT FROM users WHERE role = 'operator' ORDER BY user_id FOR UPDATE")
_OTHER_OPERATORS = text(
    "SELECT count(*) FROM users WHERE role = 'operator' AND disabled_at IS NULL AND name <> :name"
)
_SEEN = text("""
    UPDATE users SET last_seen_at = now()
    WHERE user_id = :id AND (last_seen_at IS NULL OR last_seen_at < now() - make_interval(secs => :seconds))
""")
_FULLEST = text(
    "SELECT group_id FROM agents GROUP BY group_id ORDER BY sum(node_count) DESC, group_id LIMIT 1"
)
_HAS_MEMORIES = text("SELECT 1 FROM agents WHERE group_id = :group AND node_count > 0 LIMIT 1")
