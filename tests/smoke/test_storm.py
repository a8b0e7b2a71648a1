"""A little of the storm: one fault after the other, and in the end nothing is lost, doubled, different or
deaf.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from workers.migrate import CHECKOUT

pytestmark = [pytest.mark.smoke, pytest.mark.long, pytest.mark.timeout(600)]

#: It goes on until so many have struck, and each is waited out.
FAULTS = 5


def test_a_storm_leaves_what_a_calm_time_leaves() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JIYI_")}
    command = [
        sys.executable,
        "-m",
        "bench.storm",
        "--minutes",
        "0.3",
        "--faults",
        str(FAULTS),
        "--seed",
        "7",
        "--json",
    ]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=580, check=False
    )
    assert done.stdout, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    wrong = {
        name: figures[name]
        for name in ("lost", "doubled", "different", "different_by_part", "deaf", "gave_up")
    }
    assert wrong == {
        "lost": 0,
        "doubled": 0,
        "different": 0,
        "different_by_part": {},
        "deaf": 0,
        "gave_up": [],
    }, figures
    assert figures["faults"] >= FAULTS
    assert figures["events"] > 0
    assert figures["thoughts"] > 0
