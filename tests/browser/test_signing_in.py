"""Signing in and out, and guessing."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, expect

from models.accounts import sign_in
from models.accounts.sign_in import FREE_BY_PAIR
from tests.browser.conftest import Open, enter
from tests.services import PASSWORD, somebody

#: Browsers report refused answers on the console.
FORBIDDEN, TOO_MANY = "status of 403", "status of 429"


def stranger(open_browser: Open, *expected: str) -> Page:
    page = open_browser(storage_state=None)
    page.watch.expected = expected
    return page


def try_password(page: Page, name: str, password: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_one_comes_to_the_page_asked_for_and_leaves_for_good(open_browser: Open, group: str) -> None:
    user = somebody("operator")
    page = stranger(open_browser)
    page.goto(f"/memories?group={group}&q=bees")
    expect(page).to_have_url(re.compile("/sign-in"))
    expect(page.get_by_label("Name")).to_be_focused()
    expect(page.get_by_role("navigation")).to_have_count(0)  # nothing is told to strangers
    try_password(page, user.name, PASSWORD)
    expect(page).to_have_url(re.compile(rf"/memories\?group={group}&q=bees$"))
    page.locator(".beside-page").get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in"))
    page.go_back()  # pages are not kept (Cache-Control): the way back ends at the door
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(f"/memories?group={group}")
    expect(page).to_have_url(re.compile("/sign-in"))


def test_a_wrong_password_is_told_and_the_right_one_is_taken_then(open_browser: Open) -> None:
    user = somebody("viewer")
    page = stranger(open_browser, FORBIDDEN)
    page.goto("/sign-in")
    try_password(page, user.name, "wrong")
    expect(page.get_by_role("alert").filter(has_text="wrong")).to_have_text(
        "The name or the password is wrong."
    )
    expect(page.get_by_label("Name")).to_have_value(user.name)
    expect(page.get_by_label("Password")).to_have_value("")
    expect(page.get_by_label("Password")).to_be_focused()
    try_password(page, user.name, PASSWORD)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page).to_have_url(re.compile(r"/$"))


def test_who_guesses_waits_even_with_the_right_password(open_browser: Open) -> None:
    user = somebody("viewer")
    page = stranger(open_browser, FORBIDDEN, TOO_MANY)
    page.goto("/sign-in")
    with page.expect_navigation() as answer:  # the next guess is typed into the page that comes
        try_password(page, user.name, "a guess")
    assert answer.value.status == 403
    for _ in range(FREE_BY_PAIR - 1):
        assert sign_in.count_guess(user.name, "127.0.0.1").wait == 0
    later = time.time()
    with pytest.MonkeyPatch.context() as patch:  # six more, each as soon as it may, from the same address
        for seconds in (2, 3, 5, 9, 17, 33):
            later += seconds
            patch.setattr(sign_in.time, "time", lambda later=later: later)
            assert sign_in.count_guess(user.name, "127.0.0.1").wait == 0
    for password in ("another guess", PASSWORD):
        try_password(page, user.name, password)
        expect(
            page.get_by_text(re.compile("^Too many wrong passwords. Wait [0-9]+ seconds, then try again.$"))
        ).to_be_visible()


def test_a_viewer_sees_no_way_to_what_is_closed_to_him(open_browser: Open, group: str) -> None:
    page = stranger(open_browser, FORBIDDEN)
    enter(page, somebody("viewer", groups=[group]))
    pages = page.locator(".beside-page").get_by_role("navigation", name="Pages")
    expect(pages.get_by_role("link", name="Memories")).to_be_visible()
    expect(pages.get_by_role("link", name="Access")).to_have_count(0)
    pages.get_by_role("link", name="Queues and work").click()  # what of it is his group's
    tabs = page.get_by_role("navigation", name="Queues and work")
    expect(tabs.get_by_role("link", name="Queues and work")).to_be_visible()
    expect(tabs.get_by_role("link", name="Jobs", exact=True)).to_have_count(0)
    page.goto("/people")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("table")).to_have_count(0)
