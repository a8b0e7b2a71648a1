"""Pain points and proposals, identity, what agents look at of themselves, what grew."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
NOW, ZERO, EMPTY = sa.text("now()"), sa.text("0"), sa.text("''")
TRUE, FALSE = sa.text("true"), sa.text("false")
HOT = {"postgresql_with": {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02}}
TABLES = (
    *("pain_cursors", "pain_points", "pain_evidence", "proposals", "proposal_steps"),
    *("identity_versions", "identity_proposals", "identity_snapshots", "self_reflections", "growth_tallies"),
)
FILES = "file IN ('SOUL', 'AGENTS', 'USER', 'HEARTBEAT')"
OLD_TRIGGERS = "trigger IN ('importance', 'schedule', 'request', 'conversation')"
TRIGGERS = "trigger IN ('importance', 'schedule', 'request', 'conversation', 'conversations', 'hours')"


def _text(name: str, default: sa.TextClause | None = None, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), server_default=default, nullable=nullable)


def _whole(name: str, default: sa.TextClause | None = None, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), server_default=default, nullable=nullable)


def _time(name: str, *, nullable: bool = False, now: bool = False) -> sa.Column[object]:
    return sa.Column(name, TIMESTAMP, server_default=NOW if now else None, nullable=nullable)


def _id(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.Uuid(), nullable=nullable)


def _agent(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["group_id", "agent_id"],
        ["agents.group_id", "agents.agent_id"],
        name=op.f(f"{table}_group_id_fkey"),
        ondelete="CASCADE",
    )


def _of(table: str, key: str, whole: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [key, "group_id"],
        [f"{whole}.{key}", f"{whole}.group_id"],
        name=op.f(f"{table}_{key}_fkey"),
        ondelete="CASCADE",
    )


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"{table}_pkey"))


def _check(table: str, name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"{table}_{name}_check"))


def upgrade() -> None:
    _pains()
    _identity()
    op.create_table(
        "self_reflections",
        *(
            _text("group_id"),
            _text("agent_id"),
            _whole("conversations", nullable=True),
            _whole("hours", nullable=True),
        ),
        sa.Column("require_approval", sa.Boolean(), server_default=TRUE, nullable=False),
        sa.Column("allow_soul_modification", sa.Boolean(), server_default=FALSE, nullable=False),
        sa.Column("use_llm", sa.Boolean(), server_default=TRUE, nullable=False),
        sa.Column("fallback", sa.Boolean(), server_default=TRUE, nullable=False),
        *(_whole("ended", ZERO), _whole("seen_to", ZERO), _time("last_at", now=True)),
        sa.Column("asked", sa.Boolean(), server_default=FALSE, nullable=False),
        _check("self_reflections", "bounds", "conversations >= 0 AND hours >= 0"),
        *(_agent("self_reflections"), _key("self_reflections", "group_id", "agent_id")),
        **HOT,
    )
    op.create_index("self_reflections_last_at_idx", "self_reflections", ["last_at"])
    op.create_table(
        "growth_tallies",
        *(_text("group_id"), _text("agent_id"), sa.Column("day", sa.Date(), nullable=False), _text("what")),
        *(_whole("grown", ZERO), _whole("used", ZERO)),
        *(_agent("growth_tallies"), _key("growth_tallies", "group_id", "agent_id", "day", "what")),
        **HOT,
    )
    op.add_column("reflections", sa.Column("findings", postgresql.JSONB(), nullable=True))
    op.drop_constraint(op.f("reflections_trigger_check"), "reflections", type_="check")
    op.create_check_constraint(op.f("reflections_trigger_check"), "reflections", TRIGGERS)
    for table in TABLES:
        for statement in isolate(table):
            op.execute(statement)


def _pains() -> None:
    op.create_table(
        "pain_cursors",
        *(_text("group_id"), _text("agent_id"), _whole("looked_to", ZERO)),
        *(_agent("pain_cursors"), _key("pain_cursors", "group_id", "agent_id")),
        **HOT,
    )
    op.create_table(
        "pain_points",
        *(_id("pain_id"), _text("group_id"), _text("agent_id"), _text("user_id"), _text("summary")),
        *(
            _text("category", sa.text("'other'")),
            _text("severity", sa.text("'medium'")),
            _whole("occurrence_count", ZERO),
        ),
        sa.Column("confidence", sa.Double(), server_default=ZERO, nullable=False),
        *(
            _text("status", sa.text("'open'")),
            _time("first_seen"),
            _time("last_seen"),
            _time("solved_at", nullable=True),
        ),
        _check("pain_points", "status", "status IN ('open', 'proposed', 'solved', 'dismissed')"),
        _check("pain_points", "severity", "severity IN ('low', 'medium', 'high')"),
        *(_agent("pain_points"), _key("pain_points", "pain_id", "group_id")),
    )
    op.create_index(
        "pain_points_group_id_agent_id_last_seen_idx", "pain_points", ["group_id", "agent_id", "last_seen"]
    )
    op.create_table(
        "pain_evidence",
        *(
            _text("group_id"),
            _id("pain_id"),
            _id("source_id"),
            _text("session_id", nullable=True),
            _text("quote"),
            _time("said_at"),
        ),
        *(
            _of("pain_evidence", "pain_id", "pain_points"),
            _key("pain_evidence", "group_id", "pain_id", "source_id"),
        ),
    )
    op.create_index("pain_evidence_group_id_source_id_idx", "pain_evidence", ["group_id", "source_id"])
    op.create_table(
        "proposals",
        *(
            _id("proposal_id"),
            _text("group_id"),
            _id("pain_id"),
            _text("title"),
            _text("status", sa.text("'pending'")),
            _text("made_by"),
        ),
        *(
            _whole("turns", ZERO),
            _time("created_at", now=True),
            _time("decided_at", nullable=True),
            _text("decided_by", nullable=True),
        ),
        _check("proposals", "status", "status IN ('pending', 'confirmed', 'rejected')"),
        *(_of("proposals", "pain_id", "pain_points"), _key("proposals", "proposal_id", "group_id")),
    )
    pending = sa.text("status = 'pending'")
    op.create_index(
        "proposals_one_pending_idx",
        "proposals",
        ["group_id", "pain_id"],
        unique=True,
        postgresql_where=pending,
    )
    op.create_table(
        "proposal_steps",
        *(_text("group_id"), _id("proposal_id"), _whole("number"), _text("step")),
        *(
            _of("proposal_steps", "proposal_id", "proposals"),
            _key("proposal_steps", "group_id", "proposal_id", "number"),
        ),
    )


def _identity() -> None:
    op.create_table(
        "identity_versions",
        *(_text("group_id"), _text("agent_id"), _text("file"), _whole("version"), _text("content")),
        *(
            _text("reason", EMPTY),
            _text("author"),
            _id("proposal_id", nullable=True),
            _time("created_at", now=True),
        ),
        *(_check("identity_versions", "file", FILES), _check("identity_versions", "version", "version > 0")),
        *(_agent("identity_versions"), _key("identity_versions", "group_id", "agent_id", "file", "version")),
    )
    op.create_table(
        "identity_proposals",
        *(_id("proposal_id"), _text("group_id"), _text("agent_id"), _text("file"), _text("reason")),
        *(
            _whole("base_version", ZERO),
            _text("current", EMPTY),
            _text("suggested"),
            _text("status", sa.text("'pending'")),
            _text("author"),
        ),
        sa.Column(
            "evidence", postgresql.ARRAY(sa.Uuid()), server_default=sa.text("'{}'::uuid[]"), nullable=False
        ),
        *(
            _id("reflection_id", nullable=True),
            _time("created_at", now=True),
            _time("decided_at", nullable=True),
        ),
        *(_text("decided_by", nullable=True), _text("note", EMPTY)),
        _check("identity_proposals", "file", FILES),
        _check("identity_proposals", "status", "status IN ('pending', 'approved', 'rejected')"),
        *(_agent("identity_proposals"), _key("identity_proposals", "proposal_id", "group_id")),
    )
    op.create_index(
        "identity_proposals_group_id_agent_id_created_at_idx",
        "identity_proposals",
        ["group_id", "agent_id", "created_at"],
    )
    op.create_table(
        "identity_snapshots",
        *(_id("snapshot_id"), _text("group_id"), _text("agent_id"), _text("name")),
        sa.Column("versions", postgresql.JSONB(), nullable=False),
        *(_text("author"), _time("created_at", now=True)),
        *(_agent("identity_snapshots"), _key("identity_snapshots", "snapshot_id", "group_id")),
    )
    op.create_index(
        "identity_snapshots_group_id_agent_id_created_at_idx",
        "identity_snapshots",
        ["group_id", "agent_id", "created_at"],
    )


def downgrade() -> None:
    op.execute("DELETE FROM pending_work WHERE kind IN ('merge_pains', 'solve_pain', 'follow_profile')")
    op.execute("DELETE FROM reflections WHERE trigger IN ('conversations', 'hours')")
    op.drop_constraint(op.f("reflections_trigger_check"), "reflections", type_="check")
    op.create_check_constraint(op.f("reflections_trigger_check"), "reflections", OLD_TRIGGERS)
    op.drop_column("reflections", "findings")
    for table in reversed(TABLES):
        op.drop_table(table)
