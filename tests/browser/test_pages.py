"""Every page, as it is met: in English on a dark telephone, where words are longest, and in Chinese on a light desk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import DESKTOP, PHONE, Open
from tests.browser.town import Town

LOOKS = Path(__file__).with_name("looks.js").read_text(encoding="utf-8")
#: A page that is not there is part of the walk, and browsers report it.
REFUSED = "404"
FEWEST_PAGES, MOST_ENTRIES = 25, 12
LINKS = "all => all.map((a) => [a.textContent, a.getAttribute('href')])"


def pages_of(page: Page, town: Town) -> dict[str, str]:
    """Every page of the menu and its tabs, and those behind them; title → address."""
    page.goto(f"/?group={town.group}")
    entries = page.locator(".beside-page nav a").evaluate_all(LINKS)
    assert len(entries) <= MOST_ENTRIES, "the menu has become long again"
    links = dict(entries)
    for _, path in entries:
        page.goto(path)
        links |= dict(page.locator("nav.tabs a").evaluate_all(LINKS))
    assert len(links) >= FEWEST_PAGES, "pages are missing from the menu"
    return links | town.paths() | {"the API": "/api/docs"}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"locale": "en-GB", "viewport": PHONE, "color_scheme": "dark"}, id="english-phone-dark"),
        pytest.param({"locale": "zh-CN", "viewport": DESKTOP}, id="chinese-desk"),
    ],
)
def test_no_page_has_errors_or_cannot_be_read(open_browser: Open, town: Town, options: dict[str, Any]) -> None:
    page = open_browser(**options)
    page.watch.expected = (REFUSED,)
    asked = {"language": options["locale"][:2], "phone": options["viewport"] == PHONE}
    wrong: list[str] = []
    for name, path in pages_of(page, town).items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == (404 if name == "refused" else 200), path
        if name == "the API":  # has no menu, and is English
            continue
        wrong += [f"{name}: {defect}" for defect in page.evaluate(LOOKS, asked) + page.watch.take()]
    assert not wrong, "\n".join(wrong)


def test_what_goes_wrong_in_a_page_is_heard_and_seen(page: Page, town: Town) -> None:
    page.goto(f"/memories?group={town.group}")
    assert page.watch.take() == []
    page.evaluate("document.body.setAttribute('style', 'color: red')")
    with page.expect_event("pageerror"):
        page.evaluate("setTimeout(() => { throw new Error('of the test'); })")
    heard = "\n".join(page.watch.take())
    assert "CSP: style-src" in heard
    assert "of the test" in heard
    page.evaluate("""() => document.querySelector("main").insertAdjacentHTML("beforeend",
        '<input name="unnamed"><p class="far">far</p><small class="pale">pale</small>')""")
    page.evaluate("document.querySelector('.far').style.width = '3000px'")
    page.evaluate("document.querySelector('.pale').style.color = '#ccc'")
    wrong = "\n".join(page.evaluate(LOOKS, {"language": "zh", "phone": False}))
    for sentence in ("without a name: <input", "wider than the window", "contrast 1.", "lang is en", "not translated: <h1>"):
        assert sentence in wrong
