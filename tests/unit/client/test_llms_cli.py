"""``jiyi llms`` as it looks, whatever the service says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from jiyi.cli.operations.llms import llms_tables
from jiyi.protocol.presets import PRESETS
from jiyi.protocol.providers import LLMReport

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
VENDORS = [
    {"vendor": "openai", "key": True, "needs_key": True, "model": "gpt-4o-mini"},
    {"vendor": "gemini", "key": False, "needs_key": True, "model": "gemini-x"},
    {"vendor": "compatible", "key": False, "needs_key": False, "model": ""},
]


def shown(active: dict[str, Any], usage: list[dict[str, Any]]) -> str:
    console = Console(width=120, record=True, file=None, quiet=False, force_terminal=False)
    found = LLMReport.model_validate({"active": active, "vendors": VENDORS, "days": 30, "usage": usage})
    with console.capture() as captured:
        console.print(llms_tables("harbour", found, NOW))
    return captured.get()


def test_an_open_breaker_is_shown_with_its_last_error() -> None:
    breaker = {"state": "open", "last_error": "openai failed\x1b[2J on its side", "last_error_at": "2026-03-01T11:57:00+00:00"}
    text = shown({"vendor": "openai", "model": "openai:gpt-4o-mini", "breaker": breaker, "problem": None}, [])
    assert "breaker     open" in text
    assert "3 m ago: openai failed [2J on its side" in text
    assert "\x1b" not in text


def test_keys_are_found_missing_or_not_needed() -> None:
    text = shown({"vendor": "rules", "model": "rules-2", "breaker": None, "problem": None}, [])
    for words in ("openai      found", "gemini      missing", "compatible  not needed", "none needed", "nothing"):
        assert words in text


@pytest.mark.parametrize(("cost", "expected"), [(0.0, "–"), (1.23456, "1.2346")])
def test_costs_that_are_not_known_are_not_zero(cost: float, expected: str) -> None:
    row = {"prompt": "memo@1", "model": "m", "calls": 1_200, "failures": 0, "prompt_tokens": 5, "completion_tokens": 6}
    row["cost"] = cost
    text = shown({"vendor": "x", "model": "m", "breaker": None, "problem": None}, [row])
    (line,) = [line for line in text.splitlines() if "memo@1" in line]
    assert line.split() == ["memo@1", "m", "1,200", "0", "5", "6", expected]


def test_the_document_names_every_vendor_with_its_default_model_and_key() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "deployment.md").read_text("utf-8").partition("## LLMs")[2]
    for preset in PRESETS.values():
        (row,) = [line for line in text.splitlines() if line.startswith((f"| `{preset.name}`", f"| `{preset.name}:"))]
        assert preset.chat_model in row
        assert all(variable in row for variable in preset.key_variables if preset.needs_key)
