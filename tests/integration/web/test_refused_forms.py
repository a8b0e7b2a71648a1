"""Whatever form of the admin is refused, its page answers again as it was filled in, with what is wrong where
it is wrong.
"""

from __future__ import annotations

import itertools
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from flask import Flask
from werkzeug.routing import AnyConverter, BaseConverter, Rule, UUIDConverter

from jiyi.errors import Conflict
from tests.integration.conftest import SignIn
from tests.integration.memory.test_inbox import observed, save
from tests.integration.web.markup import form, parsed
from web import actions
from web.admin import BLUEPRINTS

EVIL = "<script>alert('记')</script>\" onfocus=\"x"
ADMIN = {pages.name for pages in BLUEPRINTS}
CHINESE = {"Accept-Language": "zh-CN"}


def rules(app: Flask) -> list[Rule]:
    return [
        rule
        for rule in app.url_map.iter_rules()
        if "POST" in (rule.methods or ()) and rule.endpoint.partition(".")[0] in ADMIN
    ]


def values(rule: Rule) -> dict[str, Any]:
    """Something for each part of its address."""

    def fitting(converter: BaseConverter) -> Any:
        if isinstance(converter, AnyConverter):
            return next(iter(converter.items))
        return uuid4() if isinstance(converter, UUIDConverter) else "x"

    return {name: fitting(converter) for name, converter in rule._converters.items()}


def observe(group: str) -> str:
    event = observed(group, "雨", "林岚")
    save(event)
    return str(event.event_id)


def test_every_form_that_is_refused_answers_with_its_page(
    sign_in: SignIn, web_app: Flask, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, refusal = sign_in("operator"), Conflict(f"id: somebody was first {EVIL}")
    monkeypatch.setattr(actions, "perform", Mock(side_effect=refusal))
    found = rules(web_app)
    assert len(found) > 30
    with web_app.test_request_context():
        of_group = lambda rule: {"group": group} if "group" in rule.arguments else {}
        addresses = [(rule.endpoint, rule.build(values(rule) | of_group(rule))) for rule in found]
    form = {"from_page": "/conversations", "entry": "no id"}
    for (endpoint, built), htmx in itertools.product(addresses, (False, True)):
        assert built is not None
        headers = {"HX-Request": "true"} if htmx else {}
        query = {"group": group} if f"/{group}" not in built[1] else None
        answer = browser.post(built[1], query_string=query, data=form, headers=headers)
        assert answer.status_code in (400, 403, 404, 409), (endpoint, answer.status_code)
        assert "data-message" in answer.text, endpoint
        assert ("<main" in answer.text) is not htmx, endpoint
        assert 'class="refusal"' not in answer.text, endpoint
        assert "<script>alert" not in answer.text, endpoint


def test_a_memory_that_cannot_be_added_is_still_there(sign_in: SignIn, group: str) -> None:
    browser = sign_in("admin", [group])
    sent = {"agent": EVIL, "description": "  ", "poignancy": "11"}
    for language, words in ((None, "must be at most 10"), (CHINESE, "不能大于 10")):
        page = browser.get("/memories", headers=language).text
        where = form(page, "/memories/add").named("from_page").get("value")
        answer = browser.post(
            f"/memories/add?group={group}", data=sent | {"from_page": where}, headers=language
        )
        assert answer.status_code == 400
        assert "<script>" not in answer.text
        again = form(answer.text, "/memories/add")
        assert again.named("agent").get("value") == EVIL
        assert again.named("poignancy").get("value") == "11"
        assert again.named("poignancy").get("aria-invalid") == "true"
        assert again.named("description").has("autofocus")
        assert next(tag for tag in parsed(answer.text).all("details") if tag.get("class") == "add").has(
            "open"
        )
        [wrong] = [tag for tag in again.all("small") if tag.get("id") == "refused-poignancy"]
        assert words in wrong.text


def test_an_agents_settings_stay_as_they_were_typed(sign_in: SignIn, group: str) -> None:
    observe(group)
    browser, path = sign_in("admin", [group]), f"/agents/{group}/林岚"
    sent = {"mode": "elapsed", "recency_w": "-300", "relevance_w": "2", "from_page": f"{path}?type=event"}
    answer = browser.post(f"{path}/settings", data=sent)
    assert answer.status_code == 400
    again = form(answer.text, "/settings")
    assert again.named("recency_w").get("aria-describedby") == "refused-recency_w help-recency_w"
    assert again.named("relevance_w").get("value") == "2"
    assert [option.text for option in again.named("mode").all("option") if option.has("selected")] == [
        "elapsed"
    ]
    assert again.named("from_page").get("value").endswith("?type=event")


def test_a_form_that_is_not_there_any_more_says_why_above_the_page(sign_in: SignIn, group: str) -> None:
    browser, path = sign_in("admin", [group]), f"/nodes/{group}/{observe(group)}"
    for said, status in (("first", 303), ("second & last", 400)):
        answer = browser.post(f"{path}/correct", data={"description": said, "from_page": path})
        assert answer.status_code == status
    assert 'class="refusal"' not in answer.text
    above = answer.text.split("<main", 1)[1].split("<p ", 2)[1]
    assert above.startswith('class="said refused" role="alert" tabindex="-1" autofocus')


def test_passwords_are_never_sent_back(sign_in: SignIn) -> None:
    form_ = {name: word * 12 for name, word in (("old", "o"), ("new", "n"), ("again", "m"))}
    answer = sign_in("viewer").post("/account/password", data={**form_, "from_page": "/account"})
    assert answer.status_code == 400
    assert not any(word in answer.text for word in form_.values())
    assert form(answer.text, "/account/password").named("again").has("autofocus")


def test_what_is_no_page_or_another_groups_is_not_shown(sign_in: SignIn, group: str) -> None:
    browser, theirs = sign_in("admin", [group]), f"/nodes/{group}-other/{observe(f'{group}-other')}"
    elsewhere = ("", "//evil.example/", "https://evil.example/")
    no_page = ("/nowhere", "/sign-in", "/memories/export.jsonl", "/dead/resolve")
    for where in (*elsewhere, *no_page, theirs):
        answer = browser.post("/memories/add", data={"agent": "a", "description": "", "from_page": where})
        assert answer.status_code == 400
        assert ('class="refusal"' in answer.text) or where == theirs, where
        assert "雨" not in answer.text
