"""Buttons that cannot be undone ask first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEMPLATES = sorted((Path(__file__).parents[3] / "web" / "templates").glob("*.html"))
#: Asks for the name once more instead.
TYPED_AGAIN = "erasure.begin"
#: With the form that it stands in, if that asks.
BUTTON = re.compile(r"(?:<form\b[^\n]*)?<button\b(?:.*?)</button>", re.DOTALL)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_whatever_looks_dangerous_asks(template: Path) -> None:
    for button in BUTTON.findall(template.read_text(encoding="utf-8")):
        if "danger" in button and TYPED_AGAIN not in button:
            assert "data-confirm=" in button or "hx-confirm=" in button, button
