"""A memory's way through the admin: it arrives, is found, is ranked; what could not be stored is tried
again.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from playwright.sync_api import Page, expect

from jiyi import Client
from models.accounts.users import User
from tests.browser.conftest import Open
from tests.browser.town import bury

WAIT_SECONDS = 60


def tell(client: Client, *descriptions: tuple[str, int], agent: str = "Tomas") -> None:
    events = [
        {"agent_id": agent, "description": text, "poignancy": value, "event_id": uuid4()}
        for text, value in descriptions
    ]
    client.wait_for(client.observe_many(events), WAIT_SECONDS)


def requests_for_rows(page: Page) -> list[str]:
    """The addresses of lists of news that the page asks for, from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/events/rows" in request.url else None)
    return asked


def test_an_event_arrives_while_one_looks_and_is_found_by_its_words(
    page: Page, client: Client, group: str
) -> None:
    page.goto(f"/events?group={group}")
    expect(page.locator(".live-state")).to_have_text("live")
    expect(page.get_by_text("No event has arrived yet.")).to_be_visible()
    page.evaluate("document.body.dataset.same = 'page'")
    client.observe("林岚", "小满养的橘猫从窗台上跳了下来", poignancy=6)
    row = page.locator("#events > li")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("橘猫")
    expect(row.locator(".state")).to_have_text("retrievable")
    client.observe("Tomas", "The swarm has settled in the third hive", poignancy=7)
    expect(row).to_have_count(2)
    expect(row.first).to_contain_text("swarm")  # the newest above
    expect(row.first.locator(".state")).to_have_text("retrievable")
    expect(page.get_by_text("No event has arrived yet.")).to_be_hidden()
    expect(page.locator("body[data-same=page]")).to_have_count(1)  # it was never loaded anew

    page.locator(".beside-page").get_by_role("link", name="Memories").click()
    page.get_by_role("searchbox", name="Text").fill("橘猫 窗台")
    page.keyboard.press("Enter")
    found = page.locator("ol.memories > li")
    expect(found).to_have_count(1)
    expect(found.locator("mark").first).to_be_visible()
    found.get_by_role("link", name=re.compile("橘猫")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("小满养的橘猫从窗台上跳了下来")


def test_a_paused_list_stays_as_it_is_until_it_is_resumed(page: Page, client: Client, group: str) -> None:
    page.goto(f"/events?group={group}")
    expect(page.locator(".live-state")).to_have_text("live")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".live-state")).to_have_text("paused")
    tell(client, ("Rain on the roof", 3))
    expect(page.locator("#events > li")).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#events > li")).to_have_count(1)


def test_news_that_are_due_when_one_pauses_are_not_fetched(page: Page, client: Client, group: str) -> None:
    now = datetime.now(UTC)
    page.clock.install(time=now)
    page.clock.pause_at(now + timedelta(minutes=1))  # what the page does later, it does when told
    asked = requests_for_rows(page)
    page.goto(f"/events?group={group}")
    expect(page.locator(".live-state")).to_have_text("live")  # so that a first look is due
    page.get_by_role("button", name="Pause").click()
    tell(client, ("Rain on the roof", 3))
    # The last one there is.
    next(news for news in client.stream(after="0") if news.kind == "node.retrievable")
    page.clock.run_for(10_000)
    expect(page.locator("#events > li")).to_have_count(0)
    assert asked == []
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".live-state")).to_have_text("live")
    page.clock.run_for(1_000)
    expect(page.locator("#events > li")).to_have_count(1)
    assert len(asked) == 1


def test_news_that_are_under_way_when_one_pauses_are_not_shown(
    page: Page, client: Client, group: str
) -> None:
    tell(client, ("Rain on the roof", 3))
    page.route("**/events/rows*", lambda _: None)  # unanswered
    with page.expect_request("**/events/rows*") as looked:
        page.goto(f"/events?group={group}")
    expect(page.locator("#events > li")).to_have_count(1)
    tell(client, ("Sun on the roof", 3))
    with page.expect_event("requestfailed", lambda request: request == looked.value):
        page.get_by_role("button", name="Pause").click()
    expect(page.locator(".live-state")).to_have_text("paused")
    expect(page.locator("#events > li")).to_have_count(1)
    page.unroute("**/events/rows*")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#events > li")).to_have_count(2)


def test_one_sees_why_a_memory_ranks_where_it_does(page: Page, client: Client, group: str) -> None:
    tell(client, ("Tomas burned his hand at the kiln", 8), ("Mara brought bees to the orchard", 6))
    page.goto(f"/playground?group={group}")
    page.get_by_role("searchbox", name="Question").fill("kiln burned hand")
    rows = page.locator("ol.ranked > li")  # the answer comes by itself
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("kiln")
    best = rows.first.locator("details")
    best.locator("summary").click()
    table = best.get_by_role("table")
    expect(table).to_be_visible()
    expect(table.get_by_role("rowheader")).to_have_text(["recency", "relevance", "importance", "score"])
    figures = [float(cell) for cell in table.locator("tbody td:last-child").all_text_contents()]
    assert abs(sum(figures[:3]) - figures[3]) < 0.002, "the parts do not add up to the score"
    expect(best.get_by_text("words in common")).to_be_visible()
    best.get_by_role("link", name=re.compile("^Open #")).click()
    why = page.locator("section", has=page.get_by_role("heading", name="Why it was found"))
    expect(why.get_by_role("table")).to_be_visible()


def test_other_weights_bring_another_order_at_once_and_beside_the_first(
    page: Page, client: Client, group: str
) -> None:
    tell(client, ("Tomas burned his hand at the kiln", 1))
    tell(client, ("A customer from Lisbon ordered a hundred plates", 10), ("Tomas had bread and cheese", 1))
    page.goto(f"/playground?group={group}&agent=Tomas&focal=kiln+burned+hand")
    rows = page.locator("ol.ranked > li")
    expect(rows.first).to_contain_text("kiln")
    weight = page.locator("fieldset[data-side=a]").get_by_role(
        "slider", name=re.compile("^Weight of relevance")
    )
    weight.fill("0")
    page.locator("fieldset[data-side=a]").get_by_role(
        "slider", name=re.compile("^Weight of importance")
    ).fill("5")
    expect(rows.first).to_contain_text("Lisbon")
    expect(page.locator("output[for=a-importance_w]")).to_have_text("5")
    page.get_by_role("button", name="Reset").first.click()
    expect(rows.first).to_contain_text("kiln")

    page.get_by_label("Compare two settings").check()
    other = page.locator("fieldset[data-side=b]")
    other.get_by_role("slider", name=re.compile("^Weight of relevance")).fill("0")
    other.get_by_role("slider", name=re.compile("^Weight of importance")).fill("5")
    a, b = (page.get_by_role("region", name=f"Answer {side}").locator("li") for side in "AB")
    expect(a.first).to_contain_text("kiln")
    expect(b.first).to_contain_text("Lisbon")
    expect(b.first.locator(".moved")).to_contain_text("▲")
    expect(page).to_have_url(re.compile(r"b\.importance_w=5"))  # to be sent to somebody
    page.reload()
    expect(b.first).to_contain_text("Lisbon")


def letter_of(group: str, description: str) -> dict[str, Any]:
    return {
        "type": "memory.observed",
        "event_id": str(uuid4()),
        "group_id": group,
        "agent_id": "Tomas",
        "payload": {"description": description, "poignancy": 5},
    }


def test_a_dead_letter_is_tried_again_and_somebody_has_done_it(
    page: Page, client: Client, group: str, operator: User
) -> None:
    bury(
        group, "the intake did not know this type", letter_of(group, "The pear tree was struck by lightning")
    )
    bury(group, "another reason")
    page.goto(f"/dead?group={group}")
    letters = page.locator("ol.letters > li")
    expect(letters).to_have_count(2)
    page.get_by_role("searchbox", name="In the reason").fill("did not know")
    page.get_by_role("button", name="Search").click()
    expect(letters).to_have_count(1)
    letters.get_by_role("checkbox", name="Choose this letter").check()
    page.get_by_role("button", name="Replay those chosen").click()
    expect(page.get_by_role("status")).to_contain_text("1 is retried")
    expect(letters).to_have_count(0)

    page.goto(f"/events?group={group}")
    expect(page.locator("#events > li")).to_contain_text("The pear tree was struck by lightning")
    page.goto(f"/dead?group={group}")
    expect(letters).to_have_count(1)
    expect(letters).to_contain_text("another reason")
    page.locator(".beside-page").get_by_role("link", name="Access").click()
    page.locator("nav.tabs").get_by_role("link", name="Audit").click()
    done = page.get_by_role("row").filter(has_text="dead_letters.resolve").filter(has_text=group)
    expect(done).to_have_count(1)
    expect(done).to_contain_text(operator.name)


def test_what_is_discarded_is_asked_for_first(page: Page, client: Client, group: str) -> None:
    bury(group, "of no use")
    page.goto(f"/dead?group={group}")
    letters = page.locator("ol.letters > li")
    letters.get_by_role("checkbox", name="Choose this letter").check()
    questions: list[str] = []
    answers = iter((False, True))

    def answer(dialog: Any) -> None:
        questions.append(dialog.message)
        dialog.accept() if next(answers) else dialog.dismiss()

    page.on("dialog", answer)
    button = page.get_by_role("button", name="Discard those chosen")
    button.click()
    expect(letters).to_have_count(1)
    expect(letters.get_by_role("checkbox")).to_be_checked()
    button.click()
    expect(letters).to_have_count(0)
    assert questions == ["Discard those chosen? They will not be tried again."] * 2
    page.get_by_label("State").select_option("discarded")
    expect(letters).to_contain_text("of no use")


def test_the_overview_follows_what_happens_without_being_loaded_anew(
    page: Page, client: Client, group: str
) -> None:
    page.goto(f"/?group={group}")
    page.evaluate("document.body.dataset.same = 'page'")
    expect(page.locator("figure .plot canvas")).to_have_count(4)
    line = page.get_by_role("button", name="refused")
    line.click()
    expect(line).to_have_attribute("aria-pressed", "false")
    tell(client, ("Fog over the river", 2), agent="Ada")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Ada"))
    expect(row.locator("td").first).to_have_text("1")
    expect(page.locator("body[data-same=page]")).to_have_count(1)


def test_a_memory_is_archived_and_brought_back(open_browser: Open, client: Client, group: str) -> None:
    tell(client, ("The well ran dry", 4))
    page = open_browser()
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(f"/memories?group={group}&q=well")
    page.get_by_role("link", name="The well ran dry").click()
    page.get_by_role("button", name="Archive", exact=True).click()
    expect(page.locator("article.memory .pending")).to_have_text("archived")
    page.get_by_role("button", name="Restore").click()
    expect(page.locator("article.memory .pending")).to_have_count(0)


def test_what_is_chosen_is_rated_and_exported(page: Page, client: Client, group: str) -> None:
    tell(
        client,
        ("The swarm has settled in the third hive", 3),
        ("Tomas moved the fourth hive to the lime trees", 2),
    )
    page.goto(f"/memories?group={group}")
    expect(page.locator(".kinds")).to_contain_text(re.compile(r"\b2\b"))
    page.get_by_label("Choose all shown").check()
    page.get_by_role("button", name="Act on the chosen").click()
    page.get_by_label("Importance, 1 to 10").fill("9")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    lines = [json.loads(line) for line in download.value.path().read_text(encoding="utf-8").splitlines()]
    assert {line["payload"]["poignancy"] for line in lines} == {2, 3}
    page.get_by_role("button", name="Set").click()
    expect(page.locator("ol.memories > li")).to_have_count(2)
    assert {row.poignancy for row in client.memory.list(agent_id="Tomas").rows} == {9}
