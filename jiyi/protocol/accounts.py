"""API keys, people and their passwords: requests and answers. No secret and no password travels.

Only operators may put such a request on the broker; producers get a user of their own there
(``docs/tenants.md``).
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from datetime import datetime, timedelta
from typing import Annotated, Literal, Self, get_args
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, StringConstraints, model_validator

from jiyi.protocol.base import Name, Request
from jiyi.protocol.wire.signatures import KeyScope, KeyText

MAX_GROUPS = 1_000
#: An old key works on for so long after a rotation, at most.
MAX_GRACE = timedelta(days=90)


#: Of werkzeug.security, which checks them: 32 MB and about 60 ms a password.
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**15, 8, 1
SCRYPT_MEMORY = 132 * SCRYPT_N * SCRYPT_R * SCRYPT_P
SALT_CHARS = 16
PASSWORD_HASH = r"^scrypt:32768:8:1\$[A-Za-z0-9]{16}\$[0-9a-f]{128}$"  # noqa: S105
#: Long enough that guessing at the sign-in page, a few times an hour, does not get there.
MIN_PASSWORD, MAX_PASSWORD = 10, 1_000
GENERATED_PASSWORD = 20


def hash_password(password: str) -> str:
    """In the form of werkzeug's ``check_password_hash``; made here, since the client has no werkzeug."""
    salt = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(SALT_CHARS))
    hashed = hashlib.scrypt(
        password.encode(), salt=salt.encode(), n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P, maxmem=SCRYPT_MEMORY
    )
    return f"scrypt:{SCRYPT_N}:{SCRYPT_R}:{SCRYPT_P}${salt}${hashed.hex()}"


def password_problem(password: str) -> str:
    """Why it cannot be a password; empty if it can."""
    if len(password) < MIN_PASSWORD:
        return f"a password has at least {MIN_PASSWORD} characters"
    if len(password) > MAX_PASSWORD:
        return f"a password has at most {MAX_PASSWORD:,} characters"
    return ""


def make_password() -> str:
    """About 116 random bits, without characters that look similar."""
    letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    return "".join(secrets.choice(letters) for _ in range(GENERATED_PASSWORD))


def _is_user_name(text: str) -> str:
    """It ends up in addresses and in the audit log."""
    if re.fullmatch(r"[\w.@+-]{1,64}", text) is None:
        raise ValueError("1 to 64 letters, digits and . @ + - _")
    return text


KeyName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
KeyId = Annotated[str, Field(pattern=r"^[a-z0-9]{12}$")]
#: 32 bytes in hexadecimal.
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
UserName = Annotated[str, AfterValidator(_is_user_name)]
PasswordHash = Annotated[str, Field(pattern=PASSWORD_HASH)]
#: An operator may everything, in every group; an admin change and delete in their groups; a viewer look.
Role = Literal["operator", "admin", "viewer"]
ROLES: tuple[Role, ...] = get_args(Role)


class NewKey(BaseModel):
    """What the service learns about a key that was just made: all but the secret."""

    key_id: KeyId
    secret_hash: Digest
    signing_key: Digest

    @classmethod
    def of(cls, key: KeyText) -> Self:
        return cls(key_id=key.key_id, secret_hash=key.secret_hash.hex(), signing_key=key.signing_key.hex())


class CreateKey(Request):
    """A new key for the group; with the scope ``operator`` for none."""

    key: NewKey
    name: KeyName
    scopes: Annotated[list[KeyScope], Field(min_length=1, fail_fast=True)]
    expires_at: AwareDatetime | None = None


class RotateKey(Request):
    """A new key in place of one that works on for ``grace``."""

    id: KeyId
    key: NewKey
    grace: Annotated[timedelta, Field(ge=timedelta(0), le=MAX_GRACE)]


class RevokeKey(Request):
    """A key that is to work no more."""

    id: KeyId


class ListKeys(Request):
    """The group's keys; for operators also those of all groups, and their own."""

    all_groups: bool = False


class Key(BaseModel):
    """An entry of the list of keys."""

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


class AddPerson(Request):
    """Somebody new. An operator has every group; others need either ``groups`` or ``all_groups``."""

    name: UserName
    password_hash: PasswordHash
    role: Role
    groups: Annotated[list[Name], Field(min_length=1, max_length=MAX_GROUPS)] | None = Field(
        None, description="The only groups that the person may see."
    )
    all_groups: bool = Field(False, description="Every group, other tenants' and later ones included.")

    @model_validator(mode="after")
    def _groups_are_explicit(self) -> Self:
        if self.role == "operator" and self.groups is not None:
            raise ValueError("groups: an operator sees all of them; give none")
        if self.groups is not None and self.all_groups:
            raise ValueError("groups: give either names of groups or all_groups, not both")
        if self.role != "operator" and self.groups is None and not self.all_groups:
            raise ValueError("groups: name at least one group, or choose all groups explicitly (all_groups)")
        return self


class SetPassword(Request):
    """A person's new password."""

    name: UserName
    password_hash: PasswordHash


class UpdatePerson(Request):
    """Whether somebody may sign in."""

    name: UserName
    disabled: bool


class Person(BaseModel):
    """A person as they are listed."""

    user_id: UUID
    name: str
    role: Role
    #: None: all.
    groups: list[str] | None
    created_at: datetime
    last_seen_at: datetime | None
    disabled_at: datetime | None
