"""docs/specification.md: every promise names a test, and there is such a test."""

from __future__ import annotations

import re

import pytest

from tests.unit.docs.named_tests import CHECKOUT, found_in

PAGE = CHECKOUT / "docs" / "specification.md"
ROW = re.compile(r"^- \[(.+?)\]\(\.\./(tests/[\w/]+\.py)#(\w+)\)(?:, [A-Z].*)?$")
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
#: A name may begin with numbers of a requirement, which the page has behind the test.
NUMBERS = re.compile(r"^test_(?:(?:bug_)?[a-z]{0,2}_?\d+_(?:to_[a-z]+\d+_)?)*")


def test_no_promise_is_made_twice() -> None:
    assert len(ROWS) > 90
    assert len({row.partition("](")[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:62])
def test_every_promise_names_a_test_that_there_is(row: str) -> None:
    match = ROW.match(row)
    assert match is not None, "- [promise](../tests/….py#test), numbers"
    _, file, name = match.groups()
    assert name in {NUMBERS.sub("", test) for test in found_in(file, skipped=True)}, (
        f"there is no test_{name} in {file}"
    )
