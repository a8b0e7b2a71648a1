"""Labelled sentences: tables in a text file beside a module of tests, where each row is a case.

``parts.txt`` has the tables of ``test_parts.py``. A table begins with the name of its test and the names of
its columns; its rows follow, indented. A cell is read as the test's parameter is annotated: a text as it
stands, a list of texts with " / " between them, anything else as Python writes it. A text that cannot stand
so, as one of spaces, is quoted as in Python.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])
BETWEEN, IN_LISTS = " | ", " / "
#: Annotations of cells that are written as in Python.
LITERALS = re.compile(r"(int|float|bool|object|Any)$|(list|tuple|dict)\[")


def labelled(test: Test) -> Test:
    """The rows of the test's own table are its cases."""
    name = test.__name__.removeprefix("test_")
    columns, rows = tables(file_of(test.__code__.co_filename))[name]
    kinds = [test.__annotations__[column] for column in columns]
    cases = [[value(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in rows]
    marked: Test = pytest.mark.parametrize(columns, cases)(test)
    return marked


def file_of(module: str) -> Path:
    path = Path(module)
    return path.with_name(f"{path.stem.removeprefix('test_')}.txt")


@cache
def tables(file: Path) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Columns and rows of each table by its name."""
    found: dict[str, tuple[list[str], list[list[str]]]] = {}
    rows: list[list[str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            rows.append([cell.strip(" ") for cell in f" {line[2:]} ".split(BETWEEN)])
        elif line and not line.startswith("#"):
            name, _, columns = line.partition(":")
            rows = []
            found[name] = [column.strip() for column in columns.split("|")], rows
    return found


def value(cell: str, kind: str) -> Any:
    optional = kind.endswith(" | None")
    kind = kind.removesuffix(" | None")
    if optional and cell == "None":
        return None
    if kind in ("date", "datetime"):
        return {"date": date, "datetime": datetime}[kind].fromisoformat(cell)
    if kind == "list[str]":
        return cell.split(IN_LISTS) if cell else []
    if LITERALS.match(kind) or (len(cell) > 1 and cell[0] == cell[-1] == '"'):
        return ast.literal_eval(cell)
    return cell
