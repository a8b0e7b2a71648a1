"""Buttons that cannot be undone ask first."""

from __future__ import annotations

import re
from pathlib import Path

TEMPLATES = sorted((Path(__file__).parents[3] / "web" / "templates").glob("*.html"))
#: Asks for the name once more instead.
TYPED_AGAIN = "erasure.begin"
#: With the form that it stands in, if that asks.
BUTTON = re.compile(r"(?:<form\b[^\n]*)?<button\b(?:.*?)</button>", re.DOTALL)


def test_whatever_looks_dangerous_asks() -> None:
    assert TEMPLATES
    for template in TEMPLATES:
        for button in BUTTON.findall(template.read_text(encoding="utf-8")):
            if "danger" in button and TYPED_AGAIN not in button:
                assert "data-confirm=" in button or "hx-confirm=" in button, (template.name, button)
