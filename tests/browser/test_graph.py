"""The graph of an agent's memory: drawn, walked through by keys, and the same as a table."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from jiyi import Client
from models.db.scope import whole_service
from tests.browser.conftest import DESKTOP, PHONE, Open

NAMES = ("Mara", "林岚")


@pytest.fixture(scope="module")
def graph(address: str) -> str:
    """Where the graph is of two people, what they said, what a thought rests on, and a changed fact."""
    group, told = (
        f"graph-{uuid4().hex[:8]}",
        "The bees swarm|梨树开花了|Honey is ready|下雨了|A hive is empty|梨酱卖完了",
    )
    with Client(group) as client, whole_service():
        said = [
            client.observe("Tomas", text, user_id=name, visibility="agent", wait=True)
            for name, text in zip(NAMES * 3, told.split("|"), strict=True)
        ]
        bloom = "Bees come when the pear trees bloom"
        client.observe("Tomas", bloom, node_type="thought", evidence=[*said[:3]], wait=True)
        client.update(said[4], "A hive has a new queen", user_id="Mara", wait=True)
        client.observe("Tomas", "The kiln is cold", wait=True)
    return f"/agents/{group}/Tomas/graph?group={group}"


@pytest.mark.parametrize(
    "options",
    [{"viewport": DESKTOP}, {"viewport": PHONE, "color_scheme": "dark", "locale": "zh-CN"}],
    ids=["desk", "chinese-phone-dark"],
)
def test_the_graph_is_drawn_walked_by_keys_and_is_a_table_too(
    open_browser: Open, graph: str, options: dict[str, object]
) -> None:
    page = open_browser(**options)
    page.goto(graph)
    rows = page.locator("#memory-graph-rows tbody tr")
    expect(rows).to_have_count(9)
    frame, chosen = page.locator("#memory-graph"), page.locator("#memory-graph-chosen")
    expect(frame.locator("canvas")).to_have_count(3)
    thought = rows.filter(has_text="Bees come when")
    expect(thought.get_by_role("cell").nth(1).get_by_role("link")).to_have_count(3)
    changed = rows.filter(has_text="A hive is empty").get_by_role("cell").nth(2)
    expect(changed.get_by_role("link")).to_have_count(1)
    before = frame.screenshot()
    frame.focus()
    page.keyboard.press("ArrowRight")
    told = set()
    for key in ("ArrowLeft", "ArrowDown", "ArrowRight", "ArrowUp") * 6:
        page.keyboard.press(key)
        told.add(chosen.inner_text())
    assert len(told) >= 5
    assert frame.screenshot() != before
    page.keyboard.press("Escape")
    expect(chosen.get_by_role("link")).to_have_count(0)
    thought.get_by_role("link", name="Bees come when").focus()
    expect(chosen).to_contain_text("Bees come when")
    frame.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Bees come when")


def test_it_can_be_of_one_person_and_an_agent_without_memories_has_an_empty_one(
    page: Page, graph: str
) -> None:
    page.goto(graph)
    page.locator("select[name=person]").select_option("林岚")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("person="))
    expect(page.locator("#memory-graph-rows tbody tr")).to_have_count(3)
    page.goto(f"{graph}&person=nobody")
    expect(page.locator("main")).to_contain_text("Nothing remembered yet.")
