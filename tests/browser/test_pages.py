"""Every page, as it is met: in English and Chinese, light and dark, from a telephone to a wide desk; by axe
(WCAG A and AA).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from tests.browser.conftest import DESKTOP, PHONE, Open
from tests.browser.town import Town

HERE = Path(__file__).parent
LOOKS, WIDE = ((HERE / name).read_text(encoding="utf-8") for name in ("looks.js", "wide.js"))
#: A page that is not there is part of the walk, and browsers report it.
REFUSED = "404"
FEWEST_PAGES, MOST_ENTRIES = 25, 12
LINKS = "all => all.map((a) => [a.textContent, a.getAttribute('href')])"
#: What axe looks for, and what of it depends on the theme.
WHOLE: dict[str, Any] = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    "rules": {
        name: {"enabled": True}
        for name in ("heading-order", "page-has-heading-one", "landmark-one-main", "label-title-only")
    },
    "resultTypes": ["violations"],
}
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}
#: Colours are the same in both languages: they are looked at in one.
WITHOUT_COLOURS = {**WHOLE, "rules": {**WHOLE["rules"], "color-contrast": {"enabled": False}}}
OTHER_THEME = {"dark": "light", "light": "dark"}
WIDTHS = (390, 768, 1_280, 1_920)


def defects(
    page: Page, language: str, theme: str, viewport: dict[str, int], *, colours: bool = True
) -> Iterator[str]:
    """What is wrong with the page: as it is, in the other theme unless ``colours`` are left out, and as wide
    or narrow as any screen.
    """
    # A colour on its way to another is none of either.
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.evaluate(AXE_SCRIPT)
    yield from violations(page, WHOLE if colours else WITHOUT_COLOURS)
    yield from page.evaluate(LOOKS, {"language": language})
    if colours:
        page.emulate_media(color_scheme=OTHER_THEME[theme])
        yield from violations(page, CONTRAST)
        page.emulate_media(color_scheme=theme)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": viewport["height"]})
        if found := page.evaluate(WIDE):
            yield found
    page.set_viewport_size(viewport)


def violations(page: Page, options: dict[str, Any]) -> Iterator[str]:
    """What axe finds, one sentence an element."""
    for violation in page.evaluate("options => axe.run(options)", options)["violations"]:
        for node in violation["nodes"]:
            yield f"{violation['id']}: {node['html'][:160]} {node['failureSummary']}"


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
        pytest.param({"locale": "en-GB", "viewport": PHONE, "color_scheme": "dark"}, id="english"),
        pytest.param({"locale": "zh-CN", "viewport": DESKTOP, "color_scheme": "light"}, id="chinese"),
    ],
)
def test_no_page_has_errors_or_cannot_be_read(
    open_browser: Open, town: Town, options: dict[str, Any]
) -> None:
    page = open_browser(**options)
    page.watch.expected = (REFUSED,)
    how, colours = (options["color_scheme"], options["viewport"]), options["locale"] == "en-GB"
    wrong: list[str] = []
    for name, path in pages_of(page, town).items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == (404 if name == "refused" else 200), path
        language = "en" if name == "the API" else options["locale"][:2]
        wrong += [
            f"{name}: {defect}"
            for defect in [*defects(page, language, *how, colours=colours), *page.watch.take()]
        ]
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
    wrong = "\n".join(defects(page, "zh", "light", DESKTOP))
    for sentence in (
        'label: <input name="unnamed">',
        "wider than the window",
        'color-contrast: <small class="pale"',
        "lang is en",
        "not translated: <h1>",
    ):
        assert sentence in wrong
