"""What an operator does all day, in clicks: keys that are typed, and pages that come by themselves, are
none.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from jiyi import Client
from tests.browser.test_memories import letter_of, tell
from tests.browser.town import bury
from tests.integration.growth.growing import artifacts, experienced
from tests.integration.waiting import until
from workers import ephemeral
from workers.embedded.stack import Stack

#: Seconds in which a stopped worker has to be red.
RED_SECONDS = 20
ROOF = "Tomas mended the roof of the mill"


class Hand:
    """Clicks, and counts them."""

    def __init__(self) -> None:
        self.clicks = 0

    def click(self, what: Locator) -> None:
        what.click()
        self.clicks += 1


@contextmanager
def task(name: str, clicks: int) -> Iterator[Hand]:
    """A task that may take so many clicks. What it took is printed (``pytest -s``)."""
    hand, began = Hand(), time.monotonic()
    yield hand
    sys.stdout.write(f"{name}: {hand.clicks} clicks, {time.monotonic() - began:.1f} s\n")
    assert hand.clicks <= clicks, name


def test_a_memory_is_found_explained_and_corrected(page: Page, client: Client, group: str) -> None:
    tell(client, (ROOF, 5), ("The swarm has settled in the third hive", 3))
    page.goto(f"/?group={group}")
    with task("find a memory", 1) as hand:
        page.keyboard.press("/")
        page.keyboard.type("mended")
        hand.click(page.locator("#find-results").get_by_role("link", name="mended the roof"))
        expect(page.get_by_role("heading", level=1)).to_have_text(ROOF)
    with task("explain it", 2) as hand:
        hand.click(page.locator(".beside-page").get_by_role("link", name="Retrieval"))
        page.get_by_label("Question").fill("who mended the roof?")
        row = page.locator("details.ranked, tr, li").filter(has_text=ROOF).first
        expect(row).to_be_visible()
        hand.click(row)
        expect(page.get_by_text("as measured").first).to_be_visible()
    page.goto(f"/?group={group}")
    with task("correct it", 3) as hand:
        page.keyboard.press("/")
        page.keyboard.type("mended")
        hand.click(page.locator("#find-results").get_by_role("link", name="mended the roof"))
        hand.click(page.get_by_text("Correct", exact=True))
        page.get_by_label("Corrected text").fill("Tomas mended the roof of the barn")
        hand.click(page.get_by_role("button", name="Save the new version"))
        expect(page.get_by_role("heading", level=1)).to_have_text("Tomas mended the roof of the barn")


def test_a_person_is_erased_with_a_preview(page: Page, client: Client, group: str) -> None:
    tell(client, ("Isabella likes celadon green", 5))
    page.goto(f"/?group={group}")
    with task("erase a person", 4) as hand:
        hand.click(page.locator(".beside-page").get_by_role("link", name="Access"))
        hand.click(page.locator("nav.tabs").get_by_role("link", name="Erasure"))
        page.get_by_label("Name; of a person also").fill("Isabella")
        hand.click(page.get_by_role("button", name="Preview the erasure"))
        expect(page.locator("#preview")).to_contain_text("celadon")
        page.get_by_label("To erase it for good").fill("Isabella")
        hand.click(page.get_by_role("button", name="Erase for good"))
        page.wait_for_url("**/erasure/**")


def test_a_worker_is_stopped_and_red(page: Page, database: Stack, tmp_path: Path) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    with ephemeral.processes(tmp_path, ["upkeep"]):
        page.goto("/work")
        row = page.get_by_role("row").filter(has=page.get_by_role("button", name="Stop: upkeep"))
        expect(row).to_be_visible()
        with task("stop a worker", 1) as hand:
            hand.click(row.get_by_role("button", name="Stop: upkeep"))
            stopped = page.get_by_role("row").filter(has=page.locator(".dot.unreachable"))
            expect(stopped).to_contain_text("upkeep", timeout=1_000 * RED_SECONDS)
        page.get_by_role("button", name="Resume: upkeep").click()


def test_a_letter_is_tried_again(page: Page, group: str) -> None:
    bury(
        group, "the intake did not know this type", letter_of(group, "The pear tree was struck by lightning")
    )
    page.goto(f"/dead?group={group}")
    with task("requeue", 2) as hand:
        hand.click(page.get_by_role("checkbox", name="Choose this letter"))
        hand.click(page.get_by_role("button", name="Replay those chosen"))
        expect(page.get_by_role("status")).to_contain_text("1 is retried")


def test_a_skill_is_approved(page: Page, client: Client, group: str) -> None:
    experienced(group)
    until(lambda: artifacts(group))
    page.goto(f"/proposals?group={group}")
    with task("approve a skill", 2) as hand:
        hand.click(page.locator("table.cards td a").first)
        hand.click(page.get_by_role("button", name="Approve"))
        expect(page.locator("main")).to_contain_text("approved")
