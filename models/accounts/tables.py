"""Tables of groups, API keys, people and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_OBJECT, NOW, Base


class Group(Base):
    """A tenant. Everything below belongs to exactly one."""

    __tablename__ = "groups"

    group_id: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class ApiKeyRow(Base):
    """A program's key: what it may do, in one group (operators' keys: in all)."""

    __tablename__ = "api_keys"
    __table_args__ = (
        CheckConstraint(
            "scopes <@ ARRAY['publish', 'read', 'admin', 'operator'] AND cardinality(scopes) > 0",
            name="scopes",
        ),
        CheckConstraint("(group_id IS NULL) = ('operator' = ANY(scopes))", name="group"),
        Index(None, "group_id", "created_at"),
    )

    #: Part of the key; may be shown.
    key_id: Mapped[str] = mapped_column(primary_key=True)
    #: None: an operator's.
    group_id: Mapped[str | None] = mapped_column(ForeignKey("groups.group_id", ondelete="CASCADE"))
    name: Mapped[str]
    scopes: Mapped[list[str]]
    #: SHA-256 of the secret.
    secret_hash: Mapped[bytes]
    #: Derived from the secret, to check signatures of messages (``jiyi.protocol.wire.signatures``).
    signing_key: Mapped[bytes]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    created_by: Mapped[str]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    #: Up to a minute older than the truth.
    last_used_at: Mapped[datetime | None]
    #: Whose access token it is; None: a key of its own.
    connection_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("oauth_connections.connection_id", ondelete="CASCADE"), unique=True
    )


class ConnectionRow(Base):
    """A program that a person let in by OAuth, for one group; its access token is a key."""

    __tablename__ = "oauth_connections"
    __table_args__ = (
        CheckConstraint(
            "scopes <@ ARRAY['publish', 'read', 'admin'] AND cardinality(scopes) > 0", name="scopes"
        ),
        Index(None, "user_id"),
        Index(None, "group_id"),
        Index(None, "expires_at"),
    )

    connection_id: Mapped[UUID] = mapped_column(primary_key=True)
    user_id: Mapped[UUID] = mapped_column(ForeignKey("users.user_id", ondelete="CASCADE"))
    group_id: Mapped[str] = mapped_column(ForeignKey("groups.group_id", ondelete="CASCADE"))
    scopes: Mapped[list[str]]
    #: What the program calls itself.
    client: Mapped[str]
    #: SHA-256 of its client_id.
    client_hash: Mapped[bytes]
    redirect_uri: Mapped[str]
    #: PKCE's, until the code is used; None from then on.
    challenge: Mapped[str | None]
    #: SHA-256 of the code's secret, then of the refresh token's.
    secret_hash: Mapped[bytes]
    #: SHA-256 of the refresh token's before; what its successor followed from beside it, and when: for its
    #: grace.
    previous_hash: Mapped[bytes | None]
    seed: Mapped[bytes | None]
    renewed_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: With the code, or when it was not used for long.
    expires_at: Mapped[datetime]


class UserRow(Base):
    """A person who signs in to the admin. Nobody is deleted, so that the audit log goes on making sense."""

    __tablename__ = "users"
    __table_args__ = (CheckConstraint("role IN ('operator', 'admin', 'viewer')", name="role"),)

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    #: scrypt, in werkzeug's form.
    password_hash: Mapped[str]
    role: Mapped[str]
    #: None: all.
    groups: Mapped[list[str] | None]
    #: A session carries the epoch it began in and ends with it.
    epoch: Mapped[int] = mapped_column(server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: Whose account it is at a provider of OpenID Connect: its issuer and ``sub``. None: somebody with a
    #: password.
    subject: Mapped[str | None] = mapped_column(unique=True)
    last_seen_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]


class AuditEntryRow(Base):
    """Who changed memories otherwise than by events, and which. Never pruned."""

    __tablename__ = "audit_log"
    __table_args__ = (Index(None, "group_id", "audit_id"),)

    audit_id: Mapped[UUID] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: None: the whole service.
    group_id: Mapped[str | None]
    #: ``job:<name>`` or ``operator``.
    actor: Mapped[str]
    action: Mapped[str]
    #: What was changed: an agent's name, a table.
    target: Mapped[str]
    details: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)
