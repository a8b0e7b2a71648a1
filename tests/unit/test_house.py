"""tools.house: figures that are right, whether of this checkout or of made-up source."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.house import CHECKOUT, figures

#: Signatures with ``dict[str, Any]``: for JSON that goes through to other people's programs, and answers of retrievals.
MAX_UNTYPED = 60
SOURCE = {
    "models/x/deep.py": (
        "from typing import Any\n"
        "def down(context): return further(context)\n"
        "def further(context) -> dict[str, Any]: ...\n"
        "def nothing(context: dict[str, Any]): return nothing(context)\n"
    ),
    "web/api/x.py": "from models.x import deep\ndeep.down(1)  # fmt: skip\n",
    "jiyi/cli/x.py": "def tell(client): ...\n",
}


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    for name, text in SOURCE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_the_figures_of_made_up_source(made_up: Path) -> None:
    found = figures(made_up)
    assert (found["files"], found["python_lines"]) == (len(SOURCE), sum(text.count("\n") for text in SOURCE.values()))
    assert found["modules_by_folder"]["models/x"] == 1
    assert (found["fmt_skip"], found["untyped_dict_signatures"], found["import_cycles"]) == (1, 2, 0)


def test_this_checkout_is_in_order() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.house", "--json"], cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=200
    )
    found = json.loads(done.stdout)
    assert (found["import_cycles"], found["fmt_skip"]) == (0, 0)
    assert found["untyped_dict_signatures"] <= MAX_UNTYPED
