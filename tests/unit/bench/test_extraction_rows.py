"""bench.extraction: labelled rows become conversations of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.extraction import Extracted, judged, labelled, of_rows, talk_of


def row(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(fields) + "\n", encoding="utf-8")


def test_rows_of_a_writer(tmp_path: Path) -> None:
    row(tmp_path / "facts_ann.jsonl", id="f1", before="Where to?", text="Oslo, for good", lasting=True)
    row(tmp_path / "changes_ann.jsonl", id="c1", older="I smoke", newer="I quit", label="ends")
    row(tmp_path / "changes_bo.jsonl", id="c2", older="I smoke", newer="Lost my lighter", label="adds")
    made = of_rows(tmp_path, ["ann", "bo"])
    [fact], [ended, holds] = made["facts"], made["changes"]
    assert [one["role"] for one in fact["messages"]] == ["assistant", "user"]
    assert [one["turn"] for one in fact["facts"]] == [1]
    assert [len(said) for said in talk_of("x", ended).sessions.values()] == [1, 1]
    retired, kept = (
        Extracted("I smoke", frozenset({0}), "knowledge", retired=True),
        Extracted("I quit", frozenset({1}), "knowledge", retired=False),
    )
    found = judged("x", [ended, holds], {"x-c1": [retired, kept], "x-c2": [retired]})
    assert (found["superseded_right"], found["wrongly_retired"]) == (1.0, 1)
    assert of_rows(tmp_path, ["nobody"]) == {}


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labelled.jsonl"
    path.write_text('{"id": "a"}\n\n{"id": \n', encoding="utf-8")
    with pytest.raises(SystemExit, match=r"labelled\.jsonl, line 3: not JSON"):
        labelled(path)
