"""SECURITY.md: every threat names tests, and there are such tests."""

from __future__ import annotations

import re

import pytest

from tests.unit.docs.named_tests import CHECKOUT, found_in

TEXT = (CHECKOUT / "SECURITY.md").read_text(encoding="utf-8")
LINES = [line for line in TEXT.partition("## Threats")[2].splitlines() if line.startswith("| ")]
ROWS = [[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in LINES][1:]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_there_is_a_table_of_threats_and_what_somebody_looks_for() -> None:
    assert len(ROWS) > 30
    assert len({row[0] for row in ROWS}) == len(ROWS)
    for title in ("Reporting", "What is trusted", "What is not", "What a key can do", "Threats"):
        assert f"\n## {title}\n" in TEXT


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_every_threat_names_tests_that_there_are(row: list[str]) -> None:
    threat, measure, tests = row
    assert threat
    assert measure
    named = NAMED.findall(tests)
    assert named, f"{threat}: no test"
    assert NAMED.sub("", tests).strip(", ") == "", f"{threat}: what is no test among the tests"
    for path, name in named:
        assert (CHECKOUT / path).is_file(), f"{threat}: there is no {path}"
        assert name in found_in(path), f"{threat}: {path} has no {name}"
