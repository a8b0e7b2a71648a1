"""Who asks, and what they may do: the one answer for people (signed in) and programs (with a key)."""

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
    """Called by whoever checked the key or the session, before anything else is done."""
    g.identity = identity


def identity() -> Identity | None:
    """Who asks, if anybody has said so yet."""
    known: Identity | None = g.get("identity")
    return known


def who() -> Identity:
    """Who asks. 401 if nobody has said so yet."""
    known = identity()
    if known is None:
        abort(401)
    return known


def need(scope: Scope) -> Identity:
    """Who asks; 403 unless they may ``scope``."""
    known = who()
    if not known.may(scope):
        abort(403, _("This needs the right “%(right)s”.", right=scope))
    return known
