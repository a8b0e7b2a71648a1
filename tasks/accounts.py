"""Answers to what is asked of :mod:`jiyi.protocol.accounts`: about keys and people."""

from __future__ import annotations

from typing import Any

from jiyi.protocol import accounts as ask
from models.accounts import api_keys, audit, login_attempts, users
from models.accounts.api_keys import Registration
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from tasks.framework.inspection import inspects


@inspects("keys", ask.KeysQuery)
def keys(query: ask.KeysQuery) -> list[dict[str, Any]]:
    """Safe to repeat because it only reads."""
    with whole_service(), unit_of_work() as connection:
        return api_keys.listed(connection, None if query.all_groups else query.group_id)


@inspects("create_key", ask.CreateKeyQuery)
def create_key(query: ask.CreateKeyQuery) -> dict[str, Any]:
    """Safe to repeat because a key that is there already is left as it is."""
    group_id = None if "operator" in query.scopes else query.group_id
    with whole_service(), unit_of_work() as connection:
        return api_keys.create(
            connection,
            registration(query.key),
            group_id=group_id,
            name=query.name,
            scopes=query.scopes,
            expires_at=query.expires_at,
            actor=audit.OPERATOR,
        )


@inspects("revoke_key", ask.RevokeKeyQuery)
def revoke_key(query: ask.RevokeKeyQuery) -> dict[str, Any]:
    """Safe to repeat because a key is revoked once."""
    with whole_service(), unit_of_work() as connection:
        return api_keys.revoke(connection, query.key_id, group_id=None, actor=audit.OPERATOR)


@inspects("rotate_key", ask.RotateKeyQuery)
def rotate_key(query: ask.RotateKeyQuery) -> dict[str, Any]:
    """Safe to repeat because the new key is made once, and the old one's end only comes nearer."""
    with whole_service(), unit_of_work() as connection:
        return api_keys.rotate(connection, query.key_id, registration(query.key), grace=query.grace, group_id=None, actor=audit.OPERATOR)


@inspects("users", ask.UsersQuery)
def everybody(_query: ask.UsersQuery) -> list[dict[str, Any]]:
    """Safe to repeat because it only reads."""
    with whole_service(), unit_of_work() as connection:
        return users.listed(connection)


@inspects("add_user", ask.AddUserQuery)
def add_user(query: ask.AddUserQuery) -> dict[str, Any]:
    """Safe to repeat because a name is taken once."""
    with whole_service(), unit_of_work() as connection:
        return users.create(
            connection, name=query.name, password_hash=query.password_hash, role=query.role, groups=query.groups, actor=audit.OPERATOR
        )


@inspects("password", ask.PasswordQuery)
def password(query: ask.PasswordQuery) -> dict[str, Any]:
    """Safe to repeat because the same password is set again."""
    with whole_service(), unit_of_work() as connection:
        row = users.set_password(connection, query.name, query.password_hash, actor=audit.OPERATOR)
    login_attempts.reset(query.name)
    return row


@inspects("disable_user", ask.DisableUserQuery)
def disable_user(query: ask.DisableUserQuery) -> dict[str, Any]:
    """Safe to repeat because who is disabled stays so."""
    change = users.enable if query.enable else users.disable
    with whole_service(), unit_of_work() as connection:
        return change(connection, query.name, actor=audit.OPERATOR)


def registration(key: ask.NewKey) -> Registration:
    return Registration(key.key_id, bytes.fromhex(key.secret_hash), bytes.fromhex(key.signing_key))
