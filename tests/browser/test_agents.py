"""What one sees of an agent: its life in one look, what it was asked, and what looks after itself."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from jiyi import Client
from jiyi.polling import poll
from tests.browser.town import Town

#: Seconds until what was asked is written.
PATIENCE_SECONDS = 60


def test_what_was_asked_is_listed_with_what_it_returned(page: Page, client: Client, group: str) -> None:
    client.observe("Tomas", "The bees settled in the third hive", wait=True)
    for question in ("Where are the bees?", "Who came?"):
        client.retrieve("Tomas", question, top_k=3)
        client.retrieve("Tomas", question)
    poll(
        lambda: client.retrieval.list(agent_id="Tomas").rows, lambda found: len(found) == 4, PATIENCE_SECONDS
    )
    page.goto(f"/traces?group={group}")
    rows = page.locator("ol.traces > li")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("Who came?")
    rows.last.get_by_role("link", name="Where are the bees?").click()
    expect(page.locator("main")).to_contain_text("top k: 3")
    trace = page.url
    page.get_by_role("link", name="The bees settled in the third hive").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The bees settled in the third hive")
    page.goto(trace)
    page.get_by_role("button", name="Then and now").click()
    expect(page.locator("main")).to_contain_text("As known then")  # comes after the page
    expect(page.get_by_role("heading", level=1)).to_have_text("Where are the bees?")
    page.goto(f"/agents/{group}/Tomas")
    asked = page.locator("section").filter(has=page.get_by_role("heading", name="Traces"))
    asked.get_by_role("link", name="Who came?").first.click()
    page.get_by_role("button", name="Ask it again").click()
    expect(page.get_by_role("searchbox", name="Question")).to_have_value("Who came?")


def test_nothing_asked_yet_leads_to_a_question(page: Page, client: Client, group: str) -> None:
    client.observe("Tomas", "The bees settled in the third hive", wait=True)
    page.goto(f"/traces?group={group}")
    page.get_by_role("link", name="Try a question").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retrieval")


def test_an_agents_page_leads_to_all_that_it_has(page: Page, town: Town) -> None:
    for name in ("Conversations and profile", "Pain points", "Appointments", "Heartbeat"):
        page.goto(f"/agents/{town.group}/Tomas")
        page.locator("main .ways").get_by_role("link", name=name).click()
        expect(page.locator("main")).to_contain_text("Tomas")
    page.goto(f"/agents/{town.group}/Tomas")
    expect(page.get_by_role("heading", name="Latest thoughts")).to_be_visible()


def test_an_appointment_is_deleted_only_when_confirmed(page: Page, client: Client, group: str) -> None:
    client.observe("Tomas", "The bees settled in the third hive", wait=True)
    client.command(
        "appointments.create",
        agent_id="Tomas",
        text="every day at 9 remind me to feed the bees",
        tz="Europe/Berlin",
    )
    page.goto(f"/growth/schedules?group={group}")
    page.locator("tbody tr td:nth-child(3) a").click()
    page.once("dialog", lambda asking: asking.dismiss())
    page.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile("/growth/schedules/"))
    page.once("dialog", lambda asking: asking.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("main")).to_contain_text("No appointments yet.")


def test_the_try_box_reads_a_sentence_in_the_readers_own_zone(page: Page, town: Town) -> None:
    page.goto(f"/growth/schedules?group={town.group}")
    expect(page.get_by_label("Time zone")).not_to_have_value("")
    page.get_by_label("What and when, in a sentence").fill("remind me every day at 9 to water the plants")
    page.get_by_role("button", name="Read it").click()
    said = page.locator("section[aria-live]")
    expect(said).to_contain_text("water the plants")
    expect(said.locator("time").first).to_be_visible()
