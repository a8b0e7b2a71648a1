"""Schedules and their runs; heartbeats, their ticks, and alerts."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
NOW = sa.text("now()")
EMPTY_OBJECT, EMPTY_TEXT = sa.text("'{}'::jsonb"), sa.text("''")
FALSE, TRUE = sa.text("false"), sa.text("true")
TABLES = ("schedules", "schedule_runs", "heartbeats", "heartbeat_ticks", "alerts")
HOT = {"postgresql_with": {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02}}


def _of_agent(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["group_id", "agent_id"],
        ["agents.group_id", "agents.agent_id"],
        name=op.f(f"{table}_group_id_fkey"),
        ondelete="CASCADE",
    )


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("schedule_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'active'"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=True),
        sa.Column("at", TIMESTAMP, nullable=True),
        sa.Column("every_seconds", sa.Integer(), nullable=True),
        sa.Column("tz", sa.Text(), nullable=False),
        sa.Column("natural_description", sa.Text(), server_default=EMPTY_TEXT, nullable=False),
        sa.Column("confidence", sa.Double(), server_default=sa.text("1"), nullable=False),
        sa.Column("task_description", sa.Text(), nullable=False),
        sa.Column("target_type", sa.Text(), server_default=sa.text("'reminder'"), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=True),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("next_run_at", TIMESTAMP, nullable=True),
        sa.Column("owed_for", TIMESTAMP, nullable=True),
        sa.CheckConstraint("kind IN ('cron', 'once', 'interval')", name=op.f("schedules_kind_check")),
        sa.CheckConstraint("state IN ('active', 'paused', 'ended')", name=op.f("schedules_state_check")),
        sa.CheckConstraint(
            "target_type IN ('reminder', 'agent', 'hand', 'workflow')",
            name=op.f("schedules_target_type_check"),
        ),
        _of_agent("schedules"),
        sa.PrimaryKeyConstraint("schedule_id", name=op.f("schedules_pkey")),
        **HOT,
    )
    op.create_index(
        "schedules_group_id_agent_id_schedule_id_idx", "schedules", ["group_id", "agent_id", "schedule_id"]
    )
    op.create_index(
        "schedules_due_idx", "schedules", ["next_run_at"], postgresql_where=sa.text("state = 'active'")
    )
    op.create_table(
        "schedule_runs",
        sa.Column("schedule_id", sa.Uuid(), nullable=False),
        sa.Column("due_at", TIMESTAMP, nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("fired_at", TIMESTAMP, nullable=False),
        sa.Column("missed", sa.Boolean(), server_default=FALSE, nullable=False),
        sa.Column("skipped", sa.Boolean(), server_default=FALSE, nullable=False),
        sa.Column("alert_id", sa.Uuid(), nullable=True),
        sa.ForeignKeyConstraint(
            ["schedule_id"],
            ["schedules.schedule_id"],
            name=op.f("schedule_runs_schedule_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("schedule_id", "due_at", name=op.f("schedule_runs_pkey")),
    )
    op.create_table(
        "heartbeats",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("agent_key", sa.Uuid(), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=TRUE, nullable=False),
        sa.Column("interval_minutes", sa.Integer(), server_default=sa.text("30"), nullable=False),
        sa.Column("quiet_from", sa.Time(), server_default=sa.text("'22:00'"), nullable=True),
        sa.Column("quiet_to", sa.Time(), server_default=sa.text("'08:00'"), nullable=True),
        sa.Column("tz", sa.Text(), server_default=sa.text("'UTC'"), nullable=False),
        sa.Column("channel", sa.Text(), server_default=sa.text("'ui'"), nullable=False),
        sa.Column("proactivity", sa.Text(), server_default=sa.text("'standard'"), nullable=False),
        sa.Column("max_alerts", sa.Integer(), server_default=sa.text("5"), nullable=False),
        sa.Column("next_tick_at", TIMESTAMP, nullable=True),
        sa.Column("owed_for", TIMESTAMP, nullable=True),
        sa.Column("last_tick_at", TIMESTAMP, nullable=True),
        sa.Column("last_interaction_at", TIMESTAMP, nullable=True),
        sa.Column("corrections", postgresql.JSONB(), server_default=EMPTY_OBJECT, nullable=False),
        sa.Column("updated_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.CheckConstraint("channel IN ('ui', 'desktop', 'all')", name=op.f("heartbeats_channel_check")),
        sa.CheckConstraint(
            "proactivity IN ('silent', 'light', 'standard', 'autonomous')",
            name=op.f("heartbeats_proactivity_check"),
        ),
        _of_agent("heartbeats"),
        sa.PrimaryKeyConstraint("group_id", "agent_id", name=op.f("heartbeats_pkey")),
        **HOT,
    )
    op.create_index("heartbeats_due_idx", "heartbeats", ["next_tick_at"], postgresql_where=sa.text("enabled"))
    op.create_table(
        "heartbeat_ticks",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("due_at", TIMESTAMP, nullable=False),
        sa.Column("ran_at", TIMESTAMP, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("alerts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("quiet", sa.Boolean(), server_default=FALSE, nullable=False),
        sa.Column("checks", postgresql.JSONB(), server_default=EMPTY_OBJECT, nullable=False),
        sa.CheckConstraint("status IN ('ok', 'alert')", name=op.f("heartbeat_ticks_status_check")),
        _of_agent("heartbeat_ticks"),
        sa.PrimaryKeyConstraint("group_id", "agent_id", "due_at", name=op.f("heartbeat_ticks_pkey")),
    )
    op.create_table(
        "alerts",
        sa.Column("alert_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), server_default=EMPTY_TEXT, nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("urgency", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), server_default=sa.text("'ui'"), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("deliver_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("delivered_at", TIMESTAMP, nullable=True),
        sa.Column("acknowledged_at", TIMESTAMP, nullable=True),
        sa.CheckConstraint("urgency IN ('low', 'medium', 'high')", name=op.f("alerts_urgency_check")),
        sa.CheckConstraint("channel IN ('ui', 'desktop', 'all')", name=op.f("alerts_channel_check")),
        _of_agent("alerts"),
        sa.PrimaryKeyConstraint("alert_id", name=op.f("alerts_pkey")),
    )
    op.create_index("alerts_group_id_agent_id_alert_id_idx", "alerts", ["group_id", "agent_id", "alert_id"])
    op.create_index(
        "alerts_waiting_idx", "alerts", ["deliver_at"], postgresql_where=sa.text("delivered_at IS NULL")
    )
    for table in TABLES:
        for statement in isolate(table):
            op.execute(statement)


def downgrade() -> None:
    op.execute("DELETE FROM pending_work WHERE kind IN ('fire_schedule', 'heartbeat')")
    for table in reversed(TABLES):
        op.drop_table(table)
