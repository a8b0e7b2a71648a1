"""SECURITY.md: every threat names tests, and there are such tests."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
TEXT = (CHECKOUT / "SECURITY.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("## Threats")[2]
ROWS = [
    [cell.strip() for cell in line.strip("| \n").split(" | ")]
    for line in TABLE.splitlines()
    if line.startswith("| ")
][1:]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@lru_cache(maxsize=64)
def functions_of(path: str) -> set[str]:
    """Names of the test functions of a module that are not skipped."""
    tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not any("skip" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


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
        assert name in functions_of(path), f"{threat}: {path} has no {name}"
