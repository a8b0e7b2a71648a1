"""tools.house: figures that are right, whether of this checkout or of made-up source."""

from __future__ import annotations

import json
import subprocess
import sys

from tools.house import CHECKOUT

#: Signatures with ``dict[str, Any]``: for JSON that goes through to other people's programs, and answers of
#: retrievals.
MAX_UNTYPED = 60


def test_this_checkout_is_in_order() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.house", "--json"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    found = json.loads(done.stdout)
    assert (found["import_cycles"], found["fmt_skip"]) == (0, 0)
    assert found["untyped_dict_signatures"] <= MAX_UNTYPED
