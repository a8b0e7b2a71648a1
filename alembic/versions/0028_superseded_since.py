"""Since when the database knows that a memory is superseded, for questions about what was known at a time."""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE memory_nodes ADD COLUMN superseded_since timestamptz")
    op.execute("""
        CREATE FUNCTION jiyi_superseded_since() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
        BEGIN
            IF NEW.superseded_at IS NULL THEN
                NEW.superseded_since := NULL;
            ELSIF OLD.superseded_at IS NULL THEN
                NEW.superseded_since := now();
            END IF;
            RETURN NEW;
        END $$
    """)
    op.execute("""
        CREATE TRIGGER superseded_since BEFORE UPDATE OF superseded_at ON memory_nodes FOR EACH ROW
        EXECUTE FUNCTION jiyi_superseded_since()
    """)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("DROP TRIGGER superseded_since ON memory_nodes")
    op.execute("DROP FUNCTION jiyi_superseded_since")
    op.execute("ALTER TABLE memory_nodes DROP COLUMN superseded_since")
