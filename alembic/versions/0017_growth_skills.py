"""Growth: steps and trajectories, patterns, skills and workflows, votes and trust."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
NOW = sa.text("now()")
TEXTS, IDS = postgresql.ARRAY(sa.Text()), postgresql.ARRAY(sa.Uuid())
NO_TEXTS, NO_IDS, EMPTY_LIST = sa.text("'{}'::text[]"), sa.text("'{}'::uuid[]"), sa.text("'[]'::jsonb")
ZERO, FALSE = sa.text("0"), sa.text("false")
TABLES = ("trajectory_events", "trajectories", "patterns", "artifacts", "feedback", "trust")


def _of_agent(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["group_id", "agent_id"],
        ["agents.group_id", "agents.agent_id"],
        name=op.f(f"{table}_group_id_fkey"),
        ondelete="CASCADE",
    )


def _of_artifact(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["artifact_id"], ["artifacts.artifact_id"], name=op.f(f"{table}_artifact_id_fkey"), ondelete="CASCADE"
    )


def _needed(
    name: str, kind: sa.types.TypeEngine[object], default: sa.TextClause | None = None
) -> sa.Column[object]:
    return sa.Column(name, kind, server_default=default, nullable=False)


def _free(name: str, kind: sa.types.TypeEngine[object]) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=True)


def upgrade() -> None:
    whose = ("group_id", "agent_id")
    op.create_table(
        "trajectory_events",
        _needed("group_id", sa.Text()),
        _needed("event_id", sa.Uuid()),
        _needed("agent_id", sa.Text()),
        _needed("session_id", sa.Text()),
        _needed("session_key", sa.Uuid()),
        _needed("step_index", sa.Integer()),
        _needed("step_type", sa.Text()),
        _free("tool", sa.Text()),
        _needed("input_summary", sa.Text()),
        _needed("output_summary", sa.Text()),
        _free("ok", sa.Boolean()),
        _free("tokens", sa.Integer()),
        _free("duration_ms", sa.Integer()),
        _needed("occurred_at", TIMESTAMP),
        _needed("received_at", TIMESTAMP, NOW),
        _needed("closed", sa.Boolean(), FALSE),
        _free("trajectory_id", sa.Uuid()),
        _of_agent("trajectory_events"),
        sa.PrimaryKeyConstraint("group_id", "event_id", name=op.f("trajectory_events_pkey")),
    )
    op.create_index(
        "trajectory_events_group_id_session_key_step_index_idx",
        "trajectory_events",
        ["group_id", "session_key", "step_index"],
    )
    op.create_index("trajectory_events_prune_idx", "trajectory_events", ["received_at"])
    op.create_index("trajectory_events_agent_idx", "trajectory_events", whose)
    op.create_table(
        "trajectories",
        _needed("trajectory_id", sa.Uuid()),
        *(_needed(name, sa.Text()) for name in (*whose, "session_id", "request_type", "request")),
        _needed("tools_used", TEXTS, NO_TEXTS),
        _needed("completion", sa.Text()),
        _free("satisfaction", sa.Text()),
        *(_needed(name, sa.Integer()) for name in ("tokens", "steps", "duration_ms")),
        _needed("execution_chain", postgresql.JSONB(), EMPTY_LIST),
        _needed("step_ids", IDS, NO_IDS),
        _needed("started_at", TIMESTAMP),
        _needed("ended_at", TIMESTAMP),
        _needed("created_at", TIMESTAMP, NOW),
        _of_agent("trajectories"),
        sa.PrimaryKeyConstraint("trajectory_id", name=op.f("trajectories_pkey")),
    )
    op.create_index(
        "trajectories_group_id_agent_id_trajectory_id_idx", "trajectories", [*whose, "trajectory_id"]
    )
    op.create_table(
        "patterns",
        *(_needed(name, sa.Text()) for name in (*whose, "artifact")),
        _needed("pattern_hash", postgresql.BYTEA()),
        _needed("title", sa.Text()),
        *(_needed(name, TEXTS, NO_TEXTS) for name in ("wordings", "common_steps", "tools_used")),
        _free("industry_context", sa.Text()),
        _needed("total_reuse", sa.Integer()),
        _needed("sessions", sa.Integer(), ZERO),
        _needed("confidence", sa.Double()),
        _needed("evidence", IDS, NO_IDS),
        _needed("updated_at", TIMESTAMP),
        _of_agent("patterns"),
        sa.PrimaryKeyConstraint(*whose, "artifact", "pattern_hash", name=op.f("patterns_pkey")),
    )
    op.create_table(
        "artifacts",
        _needed("artifact_id", sa.Uuid()),
        *(_needed(name, sa.Text()) for name in (*whose, "artifact")),
        _needed("pattern_hash", postgresql.BYTEA()),
        _needed("name", sa.Text()),
        _needed("description", sa.Text()),
        *(_needed(name, TEXTS, NO_TEXTS) for name in ("triggers", "tools")),
        _needed("body", sa.Text()),
        _needed("confidence", sa.Double()),
        _needed("issues", postgresql.JSONB(), EMPTY_LIST),
        _needed("status", sa.Text()),
        _needed("enabled", sa.Boolean(), FALSE),
        _needed("evidence", IDS, NO_IDS),
        *(_needed(name, sa.Integer(), ZERO) for name in ("evidence_count", "decided_evidence")),
        _free("decided_by", sa.Text()),
        _free("decided_at", TIMESTAMP),
        *(_needed(name, TIMESTAMP, NOW) for name in ("created_at", "updated_at")),
        _of_agent("artifacts"),
        sa.PrimaryKeyConstraint("artifact_id", name=op.f("artifacts_pkey")),
    )
    op.create_index("artifacts_once_idx", "artifacts", [*whose, "artifact", "pattern_hash"], unique=True)
    op.create_table(
        "feedback",
        _needed("group_id", sa.Text()),
        _needed("feedback_id", sa.Uuid()),
        _needed("agent_id", sa.Text()),
        _needed("artifact_id", sa.Uuid()),
        _needed("signal", sa.Text()),
        _needed("sentiment", sa.Text()),
        _free("comment", sa.Text()),
        _needed("given_by", sa.Text()),
        _needed("given_at", TIMESTAMP),
        _of_agent("feedback"),
        _of_artifact("feedback"),
        sa.PrimaryKeyConstraint("group_id", "feedback_id", name=op.f("feedback_pkey")),
    )
    op.create_index("feedback_artifact_id_idx", "feedback", ["artifact_id"])
    op.create_table(
        "trust",
        _needed("artifact_id", sa.Uuid()),
        *(_needed(name, sa.Text()) for name in whose),
        *(_needed(name, sa.Integer(), ZERO) for name in ("positive", "negative", "neutral")),
        _needed("score", sa.Double()),
        _free("recommendation", sa.Text()),
        _needed("updated_at", TIMESTAMP),
        _of_agent("trust"),
        _of_artifact("trust"),
        sa.PrimaryKeyConstraint("artifact_id", name=op.f("trust_pkey")),
    )
    for table in TABLES:
        for statement in isolate(table):
            op.execute(statement)


def downgrade() -> None:
    op.execute("DELETE FROM pending_work WHERE kind IN ('compress', 'aggregate', 'compose', 'weigh')")
    for table in reversed(TABLES):
        op.drop_table(table)
