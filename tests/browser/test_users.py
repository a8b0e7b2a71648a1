"""What an operator is asked about a person, in clicks (``tests.browser.test_tasks``)."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from jiyi import Client
from jiyi.polling import poll
from tests.browser.test_tasks import task

#: Seconds until what was said is remembered.
PATIENCE_SECONDS = 120
TALK = (
    "Hello there.",
    "I live in Porto.",
    "My phone number is 555 0199.",
    "Good to see you.",
    "So far so good.",
)


def remembered(client: Client, user: str) -> list[str]:
    memories = client.list("helper", user_id=user, kinds=["knowledge", "preference"])
    return [memory.description for memory in memories]


def say(client: Client, session: str, *texts: str) -> None:
    for text in texts:
        client.add_turn("helper", "user", text, session, user_id="mia", wait=True)
    client.end_session("helper", session, user_id="mia")


def test_what_an_operator_is_asked_about_a_person(page: Page, client: Client, group: str) -> None:
    say(client, "s1", *TALK)
    poll(lambda: remembered(client, "mia"), lambda rows: "Porto" in str(rows), PATIENCE_SECONDS)
    say(client, "s2", "Hello.", "I moved to Lisbon.", "Nice weather.", "Well then.")
    poll(lambda: remembered(client, "mia"), lambda rows: "Lisbon" in str(rows), PATIENCE_SECONDS)
    client.conversations.context(
        agent_id="helper", query="Where do I live?", user_id="mia", session_id="s3", turn=1, split=True
    )
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(f"/?group={group}")
    found = page.locator("#find-results")
    with task("what does the assistant know of this person", 2) as hand:
        hand.click(page.locator(".beside-page").get_by_role("link", name="Users"))
        hand.click(page.get_by_role("link", name="mia"))
        expect(page.locator("main")).to_contain_text("Lisbon")
    with task("why did it answer that", 2) as hand:
        hand.click(page.get_by_role("link", name="Where do I live?"))
        expect(page.get_by_role("heading", name="The prompt, as the model got it")).to_be_visible()
        expect(page.locator("pre")).to_contain_text("Lisbon")
    page.goto(f"/?group={group}")
    with task("find a superseded memory", 1) as hand:
        page.keyboard.press("/")
        page.keyboard.type("Porto")
        hand.click(found.get_by_role("link", name="Porto").first)
        expect(page.get_by_role("heading", level=1)).to_contain_text("Porto")
    page.goto(f"/?group={group}")
    with task("undo a wrong supersession", 2) as hand:
        page.keyboard.press("/")
        page.keyboard.type("mia")
        hand.click(found.get_by_role("link", name="mia").first)
        hand.click(page.get_by_role("button", name="Reinstate"))
        expect(page.get_by_role("button", name="Reinstate")).to_have_count(0)
    page.goto(f"/?group={group}")
    with task("forget a phone number", 3) as hand:
        page.keyboard.press("/")
        page.keyboard.type("mia")
        hand.click(found.get_by_role("link", name="mia").first)
        page.get_by_label("What, in words").fill("my phone number")
        hand.click(page.get_by_role("button", name="Forget"))
        expect(page.locator("#forgotten")).to_contain_text("555 0199")
    poll(lambda: remembered(client, "mia"), lambda rows: "555 0199" not in str(rows), PATIENCE_SECONDS)
    page.goto(f"/users/{group}/mia")
    with task("erase a person", 4) as hand:
        hand.click(page.get_by_role("button", name="Erase this person"))
        hand.click(page.get_by_role("button", name="Preview the erasure"))
        expect(page.locator("#preview")).to_contain_text("mia")
        page.get_by_label("To erase it for good").fill("mia")
        hand.click(page.get_by_role("button", name="Erase for good"))
        page.wait_for_url("**/erasure/**")
