"""Whatever form of the admin is refused, its page answers again as it was filled in, with what is wrong where
it is wrong.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from werkzeug.routing import AnyConverter, Rule, UUIDConverter

from jiyi.errors import Conflict
from jiyi.protocol.events import build
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.memory.inbox import store
from tests.integration.conftest import SignIn
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
    found: dict[str, Any] = {}
    for name, converter in rule._converters.items():
        found[name] = (
            next(iter(converter.items))
            if isinstance(converter, AnyConverter)
            else uuid4()
            if isinstance(converter, UUIDConverter)
            else "x"
        )
    return found


def observe(group: str) -> str:
    event = build(
        {
            "type": "memory.observed",
            "group_id": group,
            "agent_id": "林岚",
            "payload": {"description": "雨", "poignancy": 3},
        }
    )
    with whole_service(), unit_of_work() as connection:
        store(connection, [event])
    return str(event.event_id)


@pytest.mark.parametrize("htmx", [False, True])
def test_every_form_that_is_refused_answers_with_its_page(
    sign_in: SignIn, web_app: Flask, group: str, monkeypatch: pytest.MonkeyPatch, htmx: bool
) -> None:
    browser = sign_in("operator")

    def refuse(*_: Any, **__: Any) -> None:
        raise Conflict(f"id: somebody was first {EVIL}")

    monkeypatch.setattr(actions, "perform", refuse)
    found = rules(web_app)
    assert len(found) > 30
    with web_app.test_request_context():
        addresses = [
            (
                rule.endpoint,
                rule.build(values(rule) | ({"group": group} if "group" in rule.arguments else {})),
            )
            for rule in found
        ]
    for endpoint, built in addresses:
        assert built is not None
        headers = {"HX-Request": "true"} if htmx else {}
        query = {"group": group} if f"/{group}" not in built[1] else None
        answer = browser.post(
            built[1],
            query_string=query,
            data={"from_page": "/conversations", "entry": "no id"},
            headers=headers,
        )
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
    browser, node = sign_in("admin", [group]), observe(group)
    path = f"/nodes/{group}/{node}"
    assert (
        browser.post(f"{path}/correct", data={"description": "first", "from_page": path}).status_code == 303
    )
    answer = browser.post(f"{path}/correct", data={"description": "second & last", "from_page": path})
    assert answer.status_code == 400
    assert 'class="refusal"' not in answer.text
    assert (
        answer.text.split("<main", 1)[1]
        .split("<p ", 2)[1]
        .startswith('class="said refused" role="alert" tabindex="-1" autofocus')
    )


def test_passwords_are_never_sent_back(sign_in: SignIn) -> None:
    browser = sign_in("viewer")
    answer = browser.post(
        "/account/password",
        data={"old": "o" * 12, "new": "n" * 12, "again": "m" * 12, "from_page": "/account"},
    )
    assert answer.status_code == 400
    assert not any(word * 12 in answer.text for word in "onm")
    assert form(answer.text, "/account/password").named("again").has("autofocus")


def test_what_is_no_page_or_another_groups_is_not_shown(sign_in: SignIn, group: str) -> None:
    browser, theirs = sign_in("admin", [group]), f"/nodes/{group}-other/{observe(f'{group}-other')}"
    for where in (
        "",
        "//evil.example/",
        "https://evil.example/",
        "/nowhere",
        "/sign-in",
        "/memories/export.jsonl",
        "/dead/resolve",
    ):
        answer = browser.post("/memories/add", data={"agent": "a", "description": "", "from_page": where})
        assert answer.status_code == 400
        assert 'class="refusal"' in answer.text, where
    answer = browser.post("/memories/add", data={"agent": "a", "from_page": theirs})
    assert answer.status_code == 400
    assert "雨" not in answer.text
