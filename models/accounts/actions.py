"""What can be done with API keys and with people who sign in."""

from __future__ import annotations

from datetime import UTC, datetime

from jiyi.errors import InvalidRequest, NotAllowed, NotFound
from jiyi.protocol.accounts import (
    AddPerson,
    CreateKey,
    Key,
    ListKeys,
    NewKey,
    Person,
    RevokeKey,
    RotateKey,
    SetPassword,
    UpdatePerson,
)
from jiyi.protocol.base import Request
from jiyi.protocol.wire.signatures import SCOPES, KeyScope
from models.accounts import api_keys, sign_in, users
from models.accounts.api_keys import ApiKey
from models.db.actions import Context, action


@action("keys.list")
def list_keys(context: Context, request: ListKeys) -> list[Key]:
    """List API keys.

    Of the group; for operators, with ``all_groups``, of every group and of none. Newest first, without their
    secrets.
    """
    everything = request.all_groups and context.actor.operator
    return api_keys.listed(context.connection, None if everything else context.group_id)


@action("keys.create")
def create_key(context: Context, request: CreateKey) -> Key:
    """Make an API key.

    Of the group, which need not have any memory yet; with the scope ``operator``, which only operators may
    give, of no group. Safe to repeat because a key that is there already, with the same secret, is left as it
    is.
    """
    of_service = "operator" in request.scopes
    if of_service and not context.actor.operator:
        raise InvalidRequest(["scopes: only an operator can make an operator's key"])
    if request.expires_at is not None and request.expires_at <= datetime.now(UTC):
        raise InvalidRequest(["expires_at: lies in the past"])
    group_id = None if of_service else context.group_id
    scopes = [scope for scope in SCOPES if of_service or scope in request.scopes]
    if _insert(context, request.key, group_id, request.name, scopes, request.expires_at):
        target = f"key:{request.key.key_id}"
        context.audit(
            target, group_id=group_id, name=request.name, scopes=scopes, expires_at=request.expires_at
        )
    return api_keys.one(context.connection, request.key.key_id)


@action("keys.rotate")
def rotate_key(context: Context, request: RotateKey) -> Key:
    """Replace an API key.

    The new one has the rights, the name and the life span of the old one, which works on for the time given,
    at most. Safe to repeat because the new key is made once, and the old one's end only comes nearer.
    """
    now = datetime.now(UTC)
    old = _find(context, request.id)
    if old.connection_id is not None:
        raise InvalidRequest([f"id: {request.id} is the token of a connection, which renews it"])
    refusal = old.refusal(now)
    if refusal and not api_keys.find(context.connection, [request.key.key_id]):
        raise InvalidRequest([f"id: {request.id} is {refusal}; create a new one"])
    expires_at = None if old.expires_at is None else now + (old.expires_at - old.created_at)
    scopes = [scope for scope in SCOPES if scope in old.scopes]
    key = _insert(context, request.key, old.group_id, old.name, scopes, expires_at)
    api_keys.expire(context.connection, old.key_id, now + request.grace)
    if key:
        grace = request.grace.total_seconds()
        context.audit(
            f"key:{old.key_id}",
            group_id=old.group_id,
            name=old.name,
            new_key=request.key.key_id,
            grace_seconds=grace,
        )
    return api_keys.one(context.connection, request.key.key_id)


@action("keys.revoke")
def revoke_key(context: Context, request: RevokeKey) -> Key:
    """Revoke an API key.

    It works no more, from now on and for good; web and intake notice within five seconds.
    """
    key = _find(context, request.id)
    if api_keys.revoke(context.connection, key.key_id):
        context.audit(f"key:{key.key_id}", group_id=key.group_id, name=key.name)
    return api_keys.one(context.connection, key.key_id)


@action("people.list")
def list_people(context: Context, request: Request) -> list[Person]:
    """List everybody who may sign in, or might once, by name."""
    return users.listed(context.connection)


@action("people.add")
def add_person(context: Context, request: AddPerson) -> Person:
    """Let somebody sign in.

    With a role, for the groups that are named or, if ``all_groups`` is chosen, for every one; an operator has
    all of them.
    """
    groups = None if request.groups is None else sorted(set(request.groups))
    if not users.insert(
        context.connection,
        name=request.name,
        password_hash=request.password_hash,
        role=request.role,
        groups=groups,
    ):
        raise InvalidRequest([f"name: {request.name!r} is taken"])
    return _audited(context, request.name, role=request.role, groups=groups)


@action("people.set_password")
def set_password(context: Context, request: SetPassword) -> Person:
    """Give somebody a new password.

    An operator anybody, everybody else themselves. All sessions of the person end, and a lock after wrong
    passwords opens.
    """
    if not context.actor.operator and context.actor.name != f"user:{request.name}":
        raise InvalidRequest(["name: only an operator can set the password of somebody else"])
    if not users.set_password(context.connection, request.name, request.password_hash):
        raise _nobody(request.name)
    context.after_commit(lambda: sign_in.reset_guesses(request.name))
    return _audited(context, request.name)


@action("people.update")
def update_person(context: Context, request: UpdatePerson) -> Person:
    """Keep somebody from signing in, or let them sign in again.

    All sessions of somebody who is disabled end. The last operator cannot be disabled.
    """
    if request.disabled and users.is_last_operator(context.connection, request.name):
        raise InvalidRequest([f"name: {request.name!r} is the last operator; add another one first"])
    if not users.set_disabled(context.connection, request.name, disabled=request.disabled):
        raise _nobody(request.name)
    return _audited(context, request.name, disabled=request.disabled)


def _find(context: Context, key_id: str) -> ApiKey:
    """A key that the actor may change, locked. Raises :class:`NotFound`."""
    key = api_keys.find(context.connection, [key_id], lock=True).get(key_id)
    if key is None or not (context.actor.operator or key.group_id == context.group_id):
        raise NotFound(f"id: no key {key_id!r} here; see `jiyi keys list`")
    return key


def _insert(
    context: Context,
    key: NewKey,
    group_id: str | None,
    name: str,
    scopes: list[KeyScope],
    expires_at: datetime | None,
) -> bool:
    """Store a key; False if it is there already. Raises :class:`InvalidRequest` if another key has the id.

    A connection makes none: it would outlive it, and the rights of its person.
    """
    who = context.actor.name.removeprefix("key:").partition(" ")[0]
    maker = api_keys.find(context.connection, [who]).get(who)
    if maker is not None and maker.connection_id is not None:
        raise NotAllowed("a connected program cannot create keys; its user can, in the admin")
    if api_keys.insert(
        context.connection,
        key,
        group_id=group_id,
        name=name,
        scopes=scopes,
        expires_at=expires_at,
        created_by=context.actor.name,
    ):
        return True
    existing = api_keys.find(context.connection, [key.key_id]).get(key.key_id)
    if existing is None or (existing.secret_hash.hex(), existing.group_id) != (key.secret_hash, group_id):
        raise InvalidRequest(["key_id: already used; create a new key"])
    return False


def _audited(context: Context, name: str, **details: object) -> Person:
    """The person, once the audit log has it: people belong to no group."""
    context.audit(f"user:{name}", group_id=None, **details)
    return users.one(context.connection, name)


def _nobody(name: str) -> NotFound:
    return NotFound(f"name: nobody here is called {name!r}; see `jiyi people list`")
