"""bench.judgements: what the heads say of labelled rows, each writer's by heads of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import judgements
from engine.heads import model
from engine.heads.judgements import Heads
from engine.heads.model import Features


def same(texts: Any) -> Features:
    return np.ones((len(texts), 2 * model.WIDTH), dtype=np.float32)


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")


def test_figures_are_over_all_rows_each_judged_by_its_writers_heads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": text, "before": None, "lasting": text != "b"} for text in "abc"]
    written(tmp_path, "facts_ada", rows[:2])
    written(tmp_path, "facts_bo", rows[2:])
    judges = {"ada": Heads(model.load(), same), "bo": Heads(model.load(), same)}
    said = {id(judges["ada"]): [True, True], id(judges["bo"]): [False]}
    facts = (lambda judge, rows: said[id(judge)], judgements.facts)
    monkeypatch.setitem(judgements.JUDGEMENTS, "facts", facts)
    found = {"precision": 0.5, "recall": 0.5, "accuracy": 0.333}
    assert judgements.run(tmp_path, judges.__getitem__) == {"facts": found}


def test_marks_on_what_holds_are_counted_and_what_is_neutral_has_no_precision() -> None:
    rows = [
        {"older": "I'm allergic to nuts", "newer": "x", "label": "adds"},
        {"older": "I live in Leith", "newer": "x", "label": "replaces"},
        {"older": "I play chess", "newer": "x", "label": "ends"},
    ]
    retire = {"precision": 0.5, "recall": 0.5}
    assert judgements.changes(rows, [True, True, False]) == {"retire": retire, "allergy_marked": 1}
    rows = [{"expect": mood} for mood in ("positive", "neutral", "negative")]
    found = judgements.satisfaction(rows, ["neutral", "neutral", "negative"])
    assert found == {"right": 0.667, "precision": 1.0}


def test_a_folder_without_rows_or_without_a_writers_heads_is_an_error_that_says_so(tmp_path: Path) -> None:
    shipped = Heads(model.load(), same)
    with pytest.raises(SystemExit, match=r"no file like facts_WRITER\.jsonl"):
        judgements.run(tmp_path, lambda _: shipped)
    written(tmp_path, "requests_ada", [{"text": "a", "label": "none"}])
    with pytest.raises(SystemExit, match=r"ada\.npz is not there: run python -m tools\.train --each"):
        judgements.run(tmp_path, judgements.judges_of(tmp_path, shipped))
    (tmp_path / "ada.npz").write_bytes(model.FILE.read_bytes())
    assert set(judgements.run(tmp_path, judgements.judges_of(tmp_path, shipped))) == {"requests"}
