"""What became of questions to LLMs is counted with what they used."""

from __future__ import annotations

from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

_COUNTS = ("questions", "unusable", "repaired", "by_rules", "dropped")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    counts = (f"ADD COLUMN {name} bigint NOT NULL DEFAULT 0" for name in _COUNTS)
    op.execute(
        f"ALTER TABLE llm_usage {', '.join(counts)}, ADD COLUMN seconds double precision NOT NULL DEFAULT 0"
    )


def downgrade() -> None:
    drops = (f"DROP COLUMN {name}" for name in (*_COUNTS, "seconds"))
    op.execute(f"ALTER TABLE llm_usage {', '.join(drops)}")
