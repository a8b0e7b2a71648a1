"""A group that nobody has used yet: a key, the first event and the first question, each as it stands on the
page.
"""

from __future__ import annotations

import subprocess

from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Open

OVERFLOWS = "document.documentElement.scrollWidth > innerWidth"
WAIT_SECONDS = 60


def done_in_a_shell(*lines: str) -> str:
    """What the last of the lines prints; nothing but lines that were copied from the page."""
    return subprocess.run(
        ["bash", "-ec", "\n".join(lines)], capture_output=True, text=True, timeout=WAIT_SECONDS, check=True
    ).stdout


def test_three_steps_lead_to_the_overview(page: Page, group: str) -> None:
    page.goto(f"/?group={group}")
    steps = page.locator(".first-steps li")
    expect(steps).to_have_count(3)
    steps.nth(0).get_by_role("button", name="Make the key").click()
    export, event, question = (
        page.locator(f"#{name}").inner_text() for name in ("export", "first-event", "first-question")
    )
    assert "accepted" in done_in_a_shell(export, event)

    page.locator(".beside-page").get_by_role("link", name="Overview").click()
    expect(steps.nth(0)).to_contain_text("done")
    expect(steps.nth(1)).to_contain_text("done")
    assert page.locator("#first-question").inner_text() == question
    for _ in range(WAIT_SECONDS):
        answer = done_in_a_shell(export, question)
        if "gentrification" in answer:
            break
        page.wait_for_timeout(1_000)
    assert "gentrification" in answer
    expect(steps).to_have_count(0)  # by itself
    expect(page.get_by_role("link", name="klaus")).to_be_visible()


def test_the_steps_fit_a_telephone_in_chinese(open_browser: Open, group: str) -> None:
    page = open_browser(viewport=PHONE, locale="zh-CN")
    page.goto(f"/?group={group}")
    expect(page.locator(".first-steps")).to_contain_text("头三步")
    assert not page.evaluate(OVERFLOWS)
