"""What a person chooses about the pages: language, light or dark; and the menu of a narrow screen."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Open
from tests.browser.town import Town

DARK, LIGHT = "rgb(19, 23, 22)", "rgb(246, 247, 245)"


def test_the_language_is_chosen_by_a_link_and_kept(page: Page, town: Town) -> None:
    page.goto(f"/memories?group={town.group}&q=bees")
    page.locator(".beside-page").get_by_role("link", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    expect(page.get_by_role("heading", level=1)).to_have_text("记忆")
    # The same page, nothing lost.
    expect(page).to_have_url(re.compile(rf"/memories\?group={town.group}&q=bees$"))
    page.locator(".beside-page").get_by_role("link", name="检索", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("检索")
    page.locator(".beside-page").get_by_role("link", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retrieval")


def test_dark_is_the_systems_or_chosen(open_browser: Open, town: Town) -> None:
    for scheme, background, other, after in (("dark", DARK, "Light", LIGHT), ("light", LIGHT, "Dark", DARK)):
        page = open_browser(color_scheme=scheme)
        page.goto(f"/?group={town.group}")
        expect(page.locator("body")).to_have_css("background-color", background)
        page.locator(".beside-page").get_by_role("link", name=other, exact=True).click()
        expect(page.locator("body")).to_have_css("background-color", after)
        page.goto(f"/memories?group={town.group}")
        expect(page.locator("body")).to_have_css("background-color", after)
        page.locator(".beside-page").get_by_role("link", name="As the system").click()
        expect(page.locator("body")).to_have_css("background-color", background)


def test_on_a_telephone_the_menu_opens_and_leads_on(open_browser: Open, town: Town) -> None:
    page = open_browser(viewport=PHONE, has_touch=True)
    page.goto(f"/?group={town.group}")
    menu = page.locator("header details.menu")
    expect(menu.get_by_role("navigation")).to_be_hidden()
    menu.locator("> summary").tap()
    expect(menu.get_by_role("navigation")).to_be_visible()
    menu.get_by_role("link", name="Memories").tap()
    expect(page.get_by_role("heading", level=1)).to_have_text("Memories")
    expect(menu.get_by_role("navigation")).to_be_hidden()
    page.get_by_role("searchbox", name="Text").fill("bees")
    page.get_by_role("button", name="Search").tap()
    expect(page).to_have_url(re.compile("q=bees"))
    page.locator("ol.memories").get_by_role("link", name=re.compile("bees", re.IGNORECASE)).first.tap()
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile("bees", re.IGNORECASE))


def test_the_group_is_chosen_by_choosing(page: Page, town: Town) -> None:
    page.goto("/memories?group=another-group")
    expect(page.locator("ol.memories > li")).to_have_count(0)
    page.locator(".beside-page").get_by_label("Group").select_option(town.group)
    expect(page).to_have_url(re.compile(f"group={town.group}"))
    expect(page.locator("ol.memories > li").first).to_be_visible()


def test_what_looks_again_by_itself_does_not_flicker(page: Page, town: Town) -> None:
    page.goto(f"/work?group={town.group}")
    page.route("**/work/live*", lambda route: None)  # never answered: the look stays under way
    page.locator("#work.htmx-request").wait_for()
    expect(page.locator("#workers").get_by_role("button", name="Pause").first).to_have_css("opacity", "1")


def test_on_a_telephone_no_comma_begins_a_line_of_a_workers_queues(open_browser: Open, town: Town) -> None:
    page = open_browser(viewport=PHONE)
    page.goto(f"/work?group={town.group}")
    queues = page.locator("#workers td.whole").first
    expect(queues).to_be_visible()
    of_a_line = (
        "(one) => one.getBoundingClientRect().height < 1.5 * parseFloat(getComputedStyle(one).lineHeight)"
    )
    assert queues.evaluate(f"cell => cell.children.length > 1 && [...cell.children].every({of_a_line})")
    assert queues.evaluate("cell => cell.offsetWidth / cell.parentElement.offsetWidth") > 0.9
