"""What is worked out of people's texts is remembered in one way, so that an erasure forgets all of it."""

from __future__ import annotations

import ast
from pathlib import Path

from engine.conversations.attributes import subject_words
from engine.conversations.endings import live_parts
from engine.text.wordings import wording
from jiyi.text.clauses import sentences
from jiyi.text.remembering import forget_texts, remembered

ROOT = Path(__file__).resolve().parents[3]
#: Kept by ``functools`` itself: answers about things that are nobody's text.
OTHERS = {"is_hidden", "_load", "_powers", "_runs_of_prompt", "word_list"}


def test_all_texts_are_forgotten_at_once() -> None:
    kept = remembered(4)(str.upper)
    said = "My neighbour Ragnhild breeds alpacas."
    for ask in (kept, subject_words, live_parts, wording, sentences):
        ask(said)
    known = (kept, subject_words, live_parts)
    assert all(one.cache_info().currsize for one in known)  # type: ignore[attr-defined]
    forget_texts()
    assert not any(one.cache_info().currsize for one in known)  # type: ignore[attr-defined]


def test_no_module_keeps_texts_in_another_way() -> None:
    found = {
        function.name
        for top in ("engine", "jiyi/text")
        for path in (ROOT / top).rglob("*.py")
        if "lru_cache" in (text := path.read_text(encoding="utf-8"))
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        and any("lru_cache" in ast.unparse(one) for one in function.decorator_list)
    }
    assert found <= OTHERS
