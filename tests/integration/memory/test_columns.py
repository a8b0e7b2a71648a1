"""A column of ``memory_nodes`` is said once: the recipe of docs/architecture.md, followed in a copy of the
checkout.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent, indent

import pytest
from pydantic import BaseModel

from models.db.rows import columns
from models.memory.tables import MemoryNode
from tests.integration.db.test_migrations import Database
from tests.integration.db.test_migrations import empty as empty  # noqa: PLC0414 - a fixture

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDERS = ("jiyi", "models", "tasks", "workers", "web", "alembic")
SECONDS = 120
#: A code block of the recipe: where its lines belong, and the lines.
_BLOCK = re.compile(
    r"^( *)```python\n *# ([^\s,]+)(?:, class (\w+))?\n(.*?)^ *```$", re.MULTILINE | re.DOTALL
)

#: What the copy is asked: an event in, the same memory out of everything that gives memories.
SCRIPT = """
import json
from jiyi.protocol.events import build
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.memory import reads
from models.memory.inbox import store
from models.memory.reads import MemoryFilter, search
from tasks.retrieval.retrieve import answer

event = build({
    "type": "memory.observed", "group_id": "g", "agent_id": "klaus",
    "payload": {"description": "Klaus reads a book", "keywords": ["book"], "place": "the library"},
})
with for_groups("g"):
    with unit_of_work() as connection:
        store(connection, [event])
        found = {
            "list": reads.page(connection, "g", MemoryFilter(agent_id="klaus", types=["event"]), "", 10).rows,
            "page": [reads.node(connection, "g", event.event_id)],
            "related": reads.related(connection, "g", "klaus", ["book"], 10).events,
            "search": search(connection, "g", MemoryFilter(words="book"), None, 10),
        }
    asked = RetrievalRequest(group_id="g", agent_id="klaus", queries=["book"], relevance="lexical", touch=False)
    found["retrieval"] = Answer.model_validate(answer(asked)).retrieved_nodes
print(json.dumps({name: [json.loads(one.model_dump_json())["place"] for one in rows] for name, rows in found.items()}))
"""


def follow(recipe: str, copy: Path) -> int:
    """Write the recipe's code blocks to where they belong: to the end of a class's fields, or to a new file.
    How many there were.
    """
    blocks = _BLOCK.findall(recipe)
    for _, path, name, code in blocks:
        file = copy / path
        if not name:
            latest = max(other.name[:4] for other in file.parent.glob("[0-9]*.py"))
            migration, numbered = re.subn(
                r'^(revision, down_revision) = ".*".*$',
                rf'\1 = "{int(latest) + 1:04}", "{latest}"',
                dedent(code),
                flags=re.MULTILINE,
            )
            assert numbered == 1, f"{path} has no revision"
            file.write_text("from alembic import op\n\n" + migration)
            continue
        before = file.read_text()
        start = re.search(rf"^class {name}\b.*?(?=^    \w+: )", before, re.MULTILINE | re.DOTALL)
        assert start is not None, f"{path} has no class {name} with fields"
        file.write_text(before[: start.end()] + indent(dedent(code), "    ") + before[start.end() :])
    return len(blocks)


def run(copy: Path, environment: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_three_edits_and_a_migration_bring_a_column_from_the_event_to_every_answer(
    empty: Database, tmp_path: Path
) -> None:
    for folder in FOLDERS:
        shutil.copytree(
            CHECKOUT / folder,
            tmp_path / folder,
            ignore=shutil.ignore_patterns("__pycache__", "static", "*.mo"),
        )
    shutil.copy(CHECKOUT / "alembic.ini", tmp_path)
    recipe = (
        (CHECKOUT / "docs/architecture.md")
        .read_text(encoding="utf-8")
        .split("## Adding a column to memory_nodes")[1]
    )
    assert follow(recipe.split("\n## ")[0], tmp_path) == 3 + 1
    environment = os.environ | {
        "JIYI_DATABASE_URL": empty.url,
        "JIYI_DATABASE_DIRECT_URL": "",
        "PYTHONPATH": str(tmp_path),
    }
    run(tmp_path, environment, "-m", "alembic", "upgrade", "head")
    assert "No new upgrade operations detected" in run(tmp_path, environment, "-m", "alembic", "check")
    found = json.loads(run(tmp_path, environment, "-c", SCRIPT).splitlines()[-1])
    assert found == {name: ["the library"] for name in ("list", "page", "related", "search", "retrieval")}


def test_a_field_that_no_table_has_is_refused() -> None:
    class Wrong(BaseModel):
        node_id: str
        nothing: str

    with pytest.raises(LookupError, match="nothing"):
        columns(Wrong, MemoryNode)


#: Modules with a list of columns of their own, and why it follows from no row type.
HAND_WRITTEN = {"models/retrieval/agent_index.py": "expressions, each named once in _READ"}


@pytest.mark.parametrize("folder", ["models/memory", "models/retrieval", "models/reflection"])
def test_no_list_of_a_memory_s_columns_is_written_by_hand(folder: str) -> None:
    """Most columns of an answer in one string are a list that somebody would have to keep up to date."""
    shown = {
        "node_id",
        "session_id",
        "node_count",
        "embedding_key",
        "poignancy",
        "provenance",
        "filling",
        "keywords",
    }
    for path in sorted((CHECKOUT / folder).glob("*.py")):
        if str(path.relative_to(CHECKOUT)) not in HAND_WRITTEN:
            for statement in re.findall(r'"""(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL):
                named = shown & set(re.findall(r"\w+", statement))
                assert len(named) < len(shown) - 2, f"{path}: {sorted(named)}"
