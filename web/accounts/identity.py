"""The caller's identity and rights, the same for people (signed in) and programs (with a key)."""

from __future__ import annotations

from dataclasses import dataclass

from flask import abort, g
from flask_babel import gettext as _

from jiyi.protocol.wire.signatures import KeyScope

Scope = KeyScope


@dataclass(frozen=True, slots=True)
class Identity:
    #: For the audit log: ``user:mia``, ``key:a1b2c3d4 (crawler)``.
    actor: str
    scopes: frozenset[Scope]
    #: Groups that may be seen; None: all.
    groups: frozenset[str] | None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def sees(self, group_id: str) -> bool:
        return self.groups is None or group_id in self.groups


def identify(identity: Identity) -> None:
    """Set the caller after the check of the key or the session, before anything else is done."""
    g.identity = identity


def identity() -> Identity | None:
    """The caller, if identified yet."""
    current: Identity | None = g.get("identity")
    return current


def who() -> Identity:
    """The caller. 401 if not identified yet."""
    caller = identity()
    if caller is None:
        abort(401)
    return caller


def need(scope: Scope) -> Identity:
    """The caller; 403 without ``scope``."""
    caller = who()
    if not caller.may(scope):
        abort(403, _("This needs the right “%(right)s”.", right=scope))
    return caller
