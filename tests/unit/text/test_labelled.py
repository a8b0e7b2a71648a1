"""Tables of labelled sentences: each is read by a test, and how its cells are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.text.labelled import file_of, tables, value

UNIT = Path(__file__).parents[1]


def test_each_table_has_its_test() -> None:
    texts = {file_of(str(path)): path.read_text(encoding="utf-8") for path in UNIT.rglob("test_*.py")}
    read = {file: text for file, text in texts.items() if "text.labelled import" in text and file.exists()}
    assert len(read) > 15
    unread = [(file.name, name) for file, text in read.items() for name in tables(file) if name not in text]
    assert unread == []


@pytest.mark.parametrize(
    ("cell", "kind", "expected"),
    [
        *(("tea", "str", "tea"), ("", "str", ""), ('" \\n"', "str", " \n"), ("None", "str", "None")),
        *(("None", "str | None", None), ("tea / rye bread", "list[str]", ["tea", "rye bread"])),
        *(("", "list[str]", []), ("True", "bool", True), ("[1, 2]", "list[int]", [1, 2])),
    ],
)
def test_a_cell_is_read_as_its_parameter_is_annotated(cell: str, kind: str, expected: object) -> None:
    assert value(cell, kind) == expected
