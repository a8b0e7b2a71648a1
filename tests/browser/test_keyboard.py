"""The admin without a pointer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from jiyi import Client
from tests.browser.conftest import PHONE, Open
from tests.browser.test_memories import tell
from tests.browser.town import Town, bury

#: Of the page as it is: everything that a Tab should come to.
STOPS = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter((one) =>
  one.tabIndex >= 0 && !one.disabled && one.type !== "hidden" && one.checkVisibility({ visibilityProperty: true })).length"""
#: Where the focus is, and whether that can be seen: a line around it, or a shadow.
FOCUS = """() => {
  const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
  if (at === document.body) return null;
  window.stops ??= new Map();
  if (!window.stops.has(at)) window.stops.set(at, window.stops.size);
  const around = [style, getComputedStyle(at.querySelector(".hit") ?? at)];
  const ring = around.some((one) => (one.outlineStyle !== "none" && parseFloat(one.outlineWidth) > 0)
    || one.boxShadow !== "none" || (one.stroke !== "none" && at instanceof SVGElement));
  const parts = at.type?.startsWith("date") ?? false; // day, month and year are stops of one field
  return { place: window.stops.get(at), parts, seen: ring && box.width > 0 && box.bottom > 0, what: at.outerHTML.slice(0, 99) };
}"""
#: What of a page comes after it, and has stops: a legend for each plot, counts of kinds.
LATE = {
    "/": [f"figure:nth-of-type({place}) .legend button" for place in range(1, 5)],
    "/memories": [".kinds a"],
}
#: Taps of the key before a page without an end is called a trap.
MOST = 400


def walk(page: Page) -> tuple[int, list[str]]:
    """Tab through the whole page: how many stops, and those on which the focus is not seen."""
    unseen, last = [], -1
    page.locator(".skip").focus()  # some pages begin in their search
    for _ in range(MOST):
        found = page.evaluate(FOCUS)
        if found is None or found["place"] < last:
            return last + 1, unseen  # out of the page at its end, or at its beginning again
        if found["place"] == last and not found["parts"]:
            pytest.fail(f"the focus does not move on from {found['what']}")
        last = found["place"]
        if not found["seen"]:
            unseen.append(found["what"])
        page.keyboard.press("Tab")
    pytest.fail(f"no end after {MOST} stops")


@pytest.mark.parametrize(
    "path", ["/", "/memories", "/playground", "/growth/schedules", "/proposals", "/events", "/dead"]
)
def test_tab_comes_everywhere_is_seen_and_is_never_caught(page: Page, town: Town, path: str) -> None:
    page.route(re.compile(r"/live\?"), lambda route: route.fulfill(status=204))  # the page stays as it is
    page.goto(f"{path}?group={town.group}")
    if path == "/events":
        page.get_by_role("button", name="Pause").press("Enter")  # after a click the browser shows no focus
        expect(page.locator(".live-state")).to_have_text("paused")
    for late in LATE.get(path, ()):  # comes after the page
        expect(page.locator(late).first).to_be_visible()
    expected = page.evaluate(STOPS)
    stops, unseen = walk(page)
    assert unseen == []
    assert stops == expected


def test_the_first_stop_leads_past_the_menu(page: Page, town: Town) -> None:
    page.goto(f"/memories?group={town.group}")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the page")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    stops = page.locator("main").locator(
        "a[href], button, input:not([type=hidden]), select, summary, textarea"
    )
    expect(stops.first).to_be_focused()


def test_the_menu_of_a_narrow_screen(open_browser: Open, town: Town) -> None:
    page = open_browser(viewport=PHONE)
    page.goto(f"/?group={town.group}")
    menu = page.locator("header details.menu")
    menu.locator("> summary").focus()
    page.keyboard.press("Enter")
    link = menu.get_by_role("link", name="Memories")
    expect(link).to_be_visible()
    for _ in range(MOST):
        page.keyboard.press("Tab")
        if link.evaluate("(link) => link === document.activeElement"):
            break
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Memories")


def test_sliders_and_rows_of_the_playground(page: Page, client: Client, group: str) -> None:
    tell(client, ("Tomas burned his hand at the kiln", 1), ("A customer ordered a hundred plates", 10))
    page.goto(f"/playground?group={group}&agent=Tomas&focal=kiln+burned+hand")
    rows = page.locator("ol.ranked > li")
    expect(rows.first).to_contain_text("kiln")
    slider = page.get_by_role("slider", name=re.compile("^Weight of relevance")).first
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("output[for=a-relevance_w]")).to_have_text("1.1")
    page.keyboard.press("Home")
    expect(page.locator("output[for=a-relevance_w]")).to_have_text("0")
    page.get_by_role("slider", name=re.compile("^Weight of importance")).first.focus()
    page.keyboard.press("End")
    expect(rows.first).to_contain_text("hundred plates")
    expect(
        page.get_by_role("slider", name=re.compile("^Weight of importance")).first
    ).to_be_focused()  # nobody took it away
    rows.first.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(rows.first.get_by_role("table")).to_be_visible()


def test_a_letter_is_chosen_and_discarded_with_keys_alone(page: Page, client: Client, group: str) -> None:
    bury(group, "of no use")
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(f"/dead?group={group}")
    page.get_by_role("checkbox", name="all shown").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("checkbox", name="Choose this letter")).to_be_checked()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Discard those chosen")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("1 is discarded")


def test_search_finds_pages_agents_memories_and_ids_from_anywhere(page: Page, town: Town) -> None:
    page.goto(f"/dead?group={town.group}")
    field = page.get_by_role("searchbox", name="Page, agent, memory or id")
    expect(field).to_be_hidden()
    page.keyboard.press("/")
    expect(field).to_be_focused()
    found = page.locator("#find-results")
    for typed, link in (
        ("heart", "Heartbeats page"),
        ("toma", "Tomas agent"),
        ("celadon", re.compile("celadon green memory$")),
    ):
        field.fill(typed)
        expect(found.get_by_role("link", name=link)).to_be_visible()
    field.fill(str(town.memory))
    expect(found.get_by_role("link")).to_have_count(2)  # the memory, and the event that it was
    field.fill("no such thing")
    expect(found).to_have_text(re.compile("Nothing found."))
    field.fill("toma")
    expect(found.get_by_role("link", name="Tomas agent")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(found.get_by_role("link").first).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(field).to_be_focused()
    field.fill("toma")
    expect(found.get_by_role("link", name="Tomas agent")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Tomas")
