"""Keys and people, managed from outside. Answered by workers, like inspections; no secret and no password travels.

Whoever may put such a question on the broker is an operator: the broker is for the service, producers get a user of their
own there (``docs/tenants.md``).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field, StringConstraints

from jiyi.accounts.api_keys import KeyScope, KeyText
from jiyi.accounts.passwords import PASSWORD_HASH
from jiyi.protocol.queries import Query

MAX_GROUPS = 1_000
#: An old key works on for so long after a rotation, at most.
MAX_GRACE = timedelta(days=90)

KeyName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
KeyId = Annotated[str, Field(pattern=r"^[a-z0-9]{12}$")]
#: 32 bytes in hexadecimal.
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
#: Ends up in addresses and in the audit log.
USER_NAME = r"^[\w.@+-]{1,64}$"
UserName = Annotated[str, Field(pattern=USER_NAME)]
PasswordHash = Annotated[str, Field(pattern=PASSWORD_HASH)]
Role = Literal["operator", "admin", "viewer"]


class NewKey(BaseModel):
    """What the service learns about a key that was just made: all but the secret."""

    key_id: KeyId
    secret_hash: Digest
    signing_key: Digest

    @classmethod
    def of(cls, key: KeyText) -> Self:
        return cls(key_id=key.key_id, secret_hash=key.secret_hash.hex(), signing_key=key.signing_key.hex())


class KeysQuery(Query):
    """The group's keys, or those of all groups and the operators'."""

    all_groups: bool = False


class CreateKeyQuery(Query):
    """A new key for the group; with the scope ``operator`` for none."""

    key: NewKey
    name: KeyName
    scopes: Annotated[list[KeyScope], Field(min_length=1)]
    expires_at: AwareDatetime | None = None


class RevokeKeyQuery(Query):
    """The key works no more, whatever its group."""

    key_id: KeyId


class RotateKeyQuery(Query):
    """A new key in place of one that works on for ``grace``."""

    key_id: KeyId
    key: NewKey
    grace: Annotated[timedelta, Field(ge=timedelta(0), le=MAX_GRACE)]


class Key(BaseModel):
    """A key as it is listed."""

    key_id: str
    group_id: str | None
    name: str
    scopes: list[str]
    state: Literal["alive", "expired", "revoked"]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class UsersQuery(Query):
    """Everybody who may sign in, or might once."""


class AddUserQuery(Query):
    """Somebody new. ``groups`` None: all."""

    name: UserName
    password_hash: PasswordHash
    role: Role
    groups: Annotated[list[str], Field(min_length=1, max_length=MAX_GROUPS)] | None = None


class PasswordQuery(Query):
    """A new password; all sessions of this person end, and a lock after wrong passwords opens."""

    name: UserName
    password_hash: PasswordHash


class DisableUserQuery(Query):
    """Somebody cannot sign in any more, or again with ``enable``; all sessions end."""

    name: UserName
    enable: bool = False


class User(BaseModel):
    """A person as listed."""

    user_id: UUID
    name: str
    role: Role
    groups: list[str] | None
    created_at: datetime
    last_seen_at: datetime | None
    disabled_at: datetime | None


def rows(answer: Any, model: type[Key | User]) -> list[Any]:
    """What a question for a list was answered with."""
    return [model.model_validate(row) for row in answer]
