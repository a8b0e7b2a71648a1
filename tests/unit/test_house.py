"""tools.house: figures that are right, whether of this checkout or of made-up source."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tools.actions import Actions
from tools.house import CHECKOUT, LAYERS, figures
from tools.source import modules

#: Signatures with ``dict[str, Any]``: for JSON that goes through to other people's programs, and answers of retrievals.
MAX_UNTYPED = 60
SOURCE = {
    "models/db/actions.py": "def action(name): ...\n",
    "models/accounts/audit.py": "def record(): ...\n",
    "models/x/actions.py": (
        "from models.db.actions import Context, action, by_worker\n"
        "from models.x import deep\n"
        '@action("x.told", scope="admin")\ndef tell(context, request): context.audit("x")\n'
        '@action("x.deep", scope="admin")\ndef dive(context, request): return deep.down(context)\n'
        '@action("x.silent", scope="admin")\ndef hush(context, request): return deep.nothing(context)\n'
        '@action("x.seen", scope="read", mutates=False)\ndef see(context, request): ...\n'
        'worked = by_worker("x.worked", int, int)\n'
        'idle = by_worker("x.idle", int, int)\n'
    ),
    "models/x/deep.py": (
        "from typing import Any\nfrom models.accounts import audit\n"
        "def down(context): return further(context)\n"
        "def further(context) -> dict[str, Any]:\n    later = audit.record\n    later()\n"
        "def nothing(context: dict[str, Any]): return nothing(context)\n"
    ),
    "tasks/x.py": (
        "from models.x import actions\nfrom tasks.framework.rpc import implements\n"
        "@implements(actions.worked)\ndef work(actor, request): context.audit('x')\n"
    ),
    "web/api/x.py": "from models.x.actions import tell\nfrom web.api.registry import expose\nexpose(tell, 'POST', '/x')  # fmt: skip\n",
    "models/y/making.py": (
        "from models.db.actions import action\n"
        "def make(name):\n    @action(name, scope='admin')\n    def do(context, request): context.audit('y')\n    return do\n"
    ),
    "models/y/actions.py": "from models.y.making import make\nmade = make('y.made')\n",
    "web/api/y.py": "from models.x import actions as x\nfrom models.y import actions\nexpose_commands('y', actions, *(x.see, x.dive))\n",
    "web/admin/x.py": "from models.x import actions as a\nfrom web.admin.acting import perform\ndef page(): return perform(a.dive, 1)\n",
    "jiyi/client/client.py": (
        "from jiyi.client.things import Things\n"
        "class Client:\n"
        "    def __init__(self, calls): self.things = Things(calls)\n"
        "    def see(self): return self._calls.ask('x.seen')\n"
    ),
    "jiyi/client/things.py": (
        "class Things:\n    def tell(self): return self._calls.act('x.told')\n    def dive(self): self._calls.act('x.deep')\n"
    ),
    "jiyi/cli/x.py": "def tell(client): client.things.tell(); client.see()\n",
}


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    for name, text in SOURCE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_the_actions_of_made_up_source(made_up: Path) -> None:
    actions = Actions(modules(made_up, LAYERS))
    assert actions.reached() == {
        "rpc": {"x.told", "x.deep", "x.silent", "x.seen", "x.worked", "y.made"},
        "rest": {"x.told", "x.seen", "x.deep", "y.made"},
        "admin": {"x.deep"},
        "cli": {"x.told", "x.seen"},
    }
    assert actions.without_audit() == ["x.idle", "x.silent"]


def test_the_figures_of_made_up_source(made_up: Path) -> None:
    found = figures(made_up)
    assert (found["files"], found["python_lines"]) == (len(SOURCE), sum(text.count("\n") for text in SOURCE.values()))
    assert found["modules_by_folder"]["models/x"] == 2
    assert (found["fmt_skip"], found["untyped_dict_signatures"], found["import_cycles"]) == (1, 2, 0)
    assert (found["actions"], found["actions_without_audit"]) == (7, 2)
    assert found["doors"] == {"rpc": 6, "rest": 4, "admin": 1, "cli": 2}


def test_source_without_actions_has_no_figure_for_them(tmp_path: Path) -> None:
    (tmp_path / "jiyi").mkdir()
    (tmp_path / "jiyi" / "a.py").write_text("x = 1\n", encoding="utf-8")
    found = figures(tmp_path)
    assert (found["actions"], found["actions_without_audit"], set(found["doors"].values())) == (None, None, {None})


def test_this_checkout_is_in_order() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.house", "--json"], cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=200
    )
    found = json.loads(done.stdout)
    assert (found["import_cycles"], found["fmt_skip"], found["actions_without_audit"]) == (0, 0, 0)
    assert found["untyped_dict_signatures"] <= MAX_UNTYPED


def test_the_source_shows_the_actions_that_there_are() -> None:
    """What is read from the source is what is registered when it runs."""
    actions = Actions(modules(CHECKOUT, LAYERS))
    registered = import_module("models.actions").ACTIONS
    assert {one.name: one.mutates for one in actions.found.values()} == {one.name: one.mutates for one in registered.values()}
    import_module("web.api")
    exposed = {one.action.name for one in import_module("web.api.registry").OPERATIONS if one.action is not None}
    assert actions.reached()["rest"] == exposed
