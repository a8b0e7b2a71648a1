"""The API's page: calls to copy, and operations that are tried with a key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from jiyi import Client
from jiyi.protocol.accounts import CreateKey, NewKey
from jiyi.protocol.wire.signatures import new_key
from models.accounts.actions import create_key
from models.db.actions import Actor
from tests.browser.conftest import PHONE, Open

OVERFLOWS = "document.documentElement.scrollWidth > innerWidth"


@pytest.fixture
def key(client: Client, group: str) -> str:
    """Of a group with a memory, which may read."""
    client.observe("klaus", 'Klaus 在读一本关于 "gentrification" 的书; it isn\'t long', wait=True)
    made = new_key()
    create_key.perform(
        Actor(group, "test", operator=True), CreateKey(key=NewKey.of(made), name="test", scopes=["read"])
    )
    return str(made)


def opened(page: Page, operation: str) -> Locator:
    page.goto(f"/api/docs#{operation}")
    article = page.locator(f"article#{operation}")
    article.get_by_text("Call it, or try it here").click()
    return article


def test_an_operation_is_tried_with_a_key_and_says_what_is_wrong(page: Page, key: str) -> None:
    article = opened(page, "list_memories")
    article.get_by_label("Address").fill("/api/v1/nodes?agent_id=klaus")
    page.watch.expected = ("401",)
    article.get_by_role("button", name="Send").click()
    expect(article.get_by_role("status")).to_have_text(re.compile(r"^401 .* · \d+ ms$"))
    page.get_by_label("API key").fill(key)
    article.get_by_role("button", name="Send").click()
    expect(article.get_by_role("status")).to_have_text(re.compile(r"^200 .* · \d+ ms$"))
    expect(article.locator(".answer")).to_contain_text("gentrification")
    assert json.loads(article.locator(".answer").inner_text())


def test_a_body_is_sent_as_it_is_written_and_the_page_fits_a_telephone(open_browser: Open, key: str) -> None:
    page = open_browser(viewport=PHONE)
    article = opened(page, "retrieve_memories")
    page.get_by_label("API key").fill(key)
    article.get_by_label("Body").fill(json.dumps({"agent_id": "klaus", "query": "Klaus 在读什么？"}))
    article.get_by_role("button", name="Send").click()
    expect(article.locator(".answer")).to_contain_text("gentrification")
    assert not page.evaluate(OVERFLOWS)


@pytest.mark.parametrize("language", ["curl", "Python"])
def test_what_is_copied_runs_in_a_shell_and_in_python(
    page: Page, key: str, language: str, tmp_path: Path
) -> None:
    article = opened(page, "retrieve_memories")
    body = {"agent_id": "klaus", "queries": ['isn\'t "it" 的书?'], "filters": {"include_expired": False}}
    article.get_by_label("Body").fill(json.dumps(body))
    article.get_by_label("As").select_option(language)
    text = article.locator(".called").inner_text()
    command = (
        [sys.executable, "-c", text]
        if language == "Python"
        else ["bash", "-c", text.replace("curl", "curl -sS", 1)]
    )
    done = subprocess.run(
        command,
        env={"JIYI_KEY": key, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "gentrification" in done.stdout, done.stderr


def test_every_operation_has_its_call_in_three_languages(page: Page) -> None:
    page.goto("/api/docs")
    page.evaluate("document.querySelectorAll('details.try > summary').forEach((summary) => summary.click())")
    called = (
        "language => [...document.querySelectorAll('details.try form')].map((form) => {"
        " form.elements.language.value = language; "
    )
    called += "form.dispatchEvent(new Event('input')); return form.querySelector('.called').textContent; })"
    count = page.locator("article[data-method]").count()
    for language, beginning in (
        ("curl", "curl -X "),
        ("Python", "import os"),
        ("TypeScript", "const answer = await fetch("),
    ):
        texts = page.evaluate(called, language)
        assert len(texts) == count
        assert all(text.startswith(beginning) for text in texts)
        for text in texts if language == "Python" else []:
            compile(text, "snippet", "exec")
