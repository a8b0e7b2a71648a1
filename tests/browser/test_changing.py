"""What people change and take along: adding and correcting a memory, an export, a session, the reader's own
time.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from playwright.sync_api import Page, expect

from jiyi import Client
from tests.browser.conftest import Open
from tests.browser.town import Town


def test_a_memory_is_added_corrected_and_exported(page: Page, client: Client, group: str) -> None:
    client.observe("Tomas", "Tomas mended the roof", poignancy=3, wait=True)
    page.goto(f"/memories?group={group}")
    page.get_by_text("Add a memory").click()
    form = page.locator("details.add")
    form.get_by_label("Agent").fill("Tomas")
    form.get_by_label("What happened").fill("陶马斯周五开窑 <b>&")
    form.get_by_label("Importance").fill("7")
    form.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("陶马斯周五开窑 <b>&")
    page.get_by_text("Correct", exact=True).click()
    page.get_by_label("Corrected text").fill("陶马斯周六开窑")
    page.get_by_role("button", name="Save the new version").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("陶马斯周六开窑")
    page.goto(f"/memories?group={group}&agent=Tomas")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Export").click()
    lines = [json.loads(line) for line in waiting.value.path().read_text(encoding="utf-8").splitlines()]
    assert [line["payload"]["description"] for line in lines] == [
        "Tomas mended the roof",
        "陶马斯周五开窑 <b>&",
        "陶马斯周六开窑",
    ]
    assert waiting.value.suggested_filename == "jiyi-Tomas.jsonl"


def test_a_session_is_shown_as_a_conversation(page: Page, client: Client, group: str) -> None:
    for number, (speaker, said) in enumerate(
        [("米娅", "我对花生过敏。"), ("companion", "记住了，不用花生。")]
    ):
        client.observe(
            "companion",
            said,
            kind="session",
            uri="agent://companion/session/monday",
            subject=speaker,
            session_id="monday",
            occurred_at=datetime(2026, 3, 2, 9, number, tzinfo=UTC),
            wait=True,
        )
    client.observe(
        "companion", "米娅喜欢杏仁", kind="preference", uri="agent://companion/preference/nuts", wait=True
    )
    injected = client.conversations.context(agent_id="companion", query="我对花生过敏。", session_id="monday")
    assert "杏仁" in injected.context
    client.observe("companion", "The door bell rang", session_id="monday", wait=True)
    page.goto(f"/sessions/{group}/companion/monday")
    turns = page.locator("ol.conversation > li")
    expect(turns).to_have_count(3)
    expect(turns.nth(0)).to_contain_text("米娅")
    expect(turns.nth(1)).to_have_class("own")
    expect(turns.nth(2)).to_have_class("noticed")
    turns.nth(0).get_by_role("link", name="What was recalled before the answer").click()
    expect(page.locator("main")).to_contain_text("杏仁")
    expect(page.get_by_role("button", name="Ask it as of then")).to_be_visible()
    page.go_back()
    judge = page.get_by_role("form", name="Worth remembering?")
    expect(judge).to_have_count(1)  # what the agent says is no fact of its user
    judge.get_by_role("button", name="No").click()
    expect(judge.get_by_role("button", name="No")).to_have_attribute("aria-pressed", "true")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Judged turns").click()
    [row] = [json.loads(line) for line in waiting.value.path().read_text(encoding="utf-8").splitlines()]
    assert (row["text"], row["lasting"], row["language"]) == ("我对花生过敏。", False, "zh")


def test_times_are_the_readers_own_or_utc(open_browser: Open, client: Client, group: str) -> None:
    moment = datetime(2026, 3, 2, 23, 30, tzinfo=UTC)
    node_id = client.observe("Tomas", "The kiln is hot", occurred_at=moment, wait=True)
    page = open_browser(timezone_id="Asia/Shanghai")
    page.goto(f"/nodes/{group}/{node_id}")
    expect(page.locator("article.memory time")).to_have_text("2026-03-03 07:30")
    expect(page.locator("footer")).to_contain_text("Asia/Shanghai")
    page.get_by_role("link", name="show UTC").click()
    expect(page.locator("article.memory time")).to_have_text("2026-03-02 23:30")
    expect(page.locator("footer")).to_contain_text("Times are UTC")
    page.get_by_role("link", name="show your own").click()
    expect(page.locator("article.memory time")).to_have_text("2026-03-03 07:30")


def test_the_foot_leads_to_the_api(page: Page, town: Town) -> None:
    page.goto(f"/?group={town.group}")
    page.locator("footer").get_by_role("link", name="API").click()
    expect(page).to_have_url(re.compile(r"/api/docs$"))


def test_ticking_compare_shows_on_both_sides_what_was_computed(page: Page, town: Town) -> None:
    page.goto(f"/playground?group={town.group}&agent=Tomas&focal=bees&compare=1")
    expect(page.locator("[name='a.relevance']")).to_have_value("hybrid")
    # Two settings begin as two different ones.
    expect(page.locator("[name='b.relevance']")).to_have_value("dense")
    page.goto(f"/playground?group={town.group}&agent=Tomas&focal=bees")
    expect(page.locator("[data-answer=a]")).to_be_visible()
    page.locator("[name=compare]").check()
    other = page.locator("[data-answer=b] .tally")
    expect(other).to_contain_text("dense")
    expect(page.locator("[name='b.relevance']")).to_have_value("dense")
    # Nothing is changed behind one's back: two sides that are set to the same are computed and shown as the
    # same.
    page.locator("[name='b.relevance']").select_option("hybrid")
    expect(other).to_contain_text("hybrid")
    expect(page.locator("[name='b.relevance']")).to_have_value("hybrid")
    page.reload()
    expect(other).to_contain_text("hybrid")
    expect(page.locator("[name='b.relevance']")).to_have_value("hybrid")


def test_the_weights_beside_the_sliders_are_those_of_the_table(page: Page, town: Town) -> None:
    page.goto(f"/playground?group={town.group}&agent=Tomas&focal=bees")
    shown = {}
    for _ in range(2):  # as the page comes, and after an answer
        page.locator("[data-answer=a] summary").first.click()
        cells = page.locator("[data-answer=a] details[open] table.components tbody tr td:nth-child(4)")
        expect(cells.first).to_be_visible()
        for place, part in enumerate(("recency", "relevance", "importance")):
            expect(page.locator(f"[data-used='a {part}'] b")).to_have_text(cells.nth(place).inner_text())
            shown.setdefault(part, []).append(cells.nth(place).inner_text())
        with page.expect_response(lambda answer: "/playground/answer" in answer.url):
            page.locator("[name='a.relevance_w']").fill("2")
        expect(page.locator("[data-used='a relevance'] b")).to_have_text("6.00")
        page.locator("[data-answer=a] details[open] summary").first.click()
    assert shown["relevance"] == ["3.00", "6.00"]


def test_who_chose_no_group_sees_one_with_memories(open_browser: Open, town: Town) -> None:
    page = open_browser()
    page.context.clear_cookies(name="jiyi_group")
    page.goto("/memories")
    expect(page.locator("ol.memories > li").first).to_be_visible()


def test_the_use_of_llms_has_a_page(page: Page, town: Town) -> None:
    page.goto(f"/llm-use?group={town.group}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cost of LLMs")
    expect(page.get_by_role("main")).to_contain_text("The LLM in use is rules.")
