"""Indexes of large agents' vectors have their size in their names: a model of two sizes has two of them."""

from __future__ import annotations

import re

from sqlalchemy import text

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

#: Up to this revision: the prefix and twelve characters of the model's digest.
NAME = re.compile(r"memory_nodes_nearest_[0-9a-f]{12}")
SIZE = re.compile(r"vector_dims\(embedding\) = (\d+)")
INDEXES = text(
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'memory_nodes'"
)


def upgrade() -> None:
    for name, definition in op.get_bind().execute(INDEXES).all():
        if NAME.fullmatch(name) and (size := SIZE.search(definition)):
            op.execute(f"ALTER INDEX {name} RENAME TO {name}_{size[1]}")


def downgrade() -> None:
    renamed: set[str] = set()
    for name, _ in op.get_bind().execute(INDEXES).all():
        before = name.rpartition("_")[0]
        if NAME.fullmatch(before) and before not in renamed:  # of two sizes one is found again
            renamed.add(before)
            op.execute(f"ALTER INDEX {name} RENAME TO {before}")
