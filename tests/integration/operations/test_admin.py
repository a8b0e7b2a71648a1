"""The operators' pages: what each shows, with data and with nothing, and who may see and do what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from sqlalchemy import text
from werkzeug.routing import AnyConverter

from engine.operations import JOBS
from jiyi.protocol.events import build
from models.accounts import audit
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.memory.inbox import store
from models.queue import dead_letters
from models.queue.pending_work import complete
from tests.integration.away import away
from tests.integration.conftest import PASSWORD, Browser, SignIn
from tests.integration.memory.test_inbox import execute
from tests.integration.web.markup import code_in_attributes
from web.admin import BLUEPRINTS

EVIL = "<script>alert('记')</script>\"' \u202etxt"
PAGES = ["/", "/work", "/dead", "/account"]
OF_ADMINS = ["/keys", "/audit", "/erasure"]
OF_OPERATORS = ["/queues/embedding", "/queues/memory.intake", "/schedules", "/people"]
JSON = {"/": "/overview.json"}


def bury(group: str | None, reason: str = "why", kind: str = "intake", count: int = 1) -> None:
    with whole_service(), unit_of_work() as connection:
        for n in range(count):
            dead_letters.add_message(connection, '{"n": "坏"}', f"{reason} {n}", uuid4(), group)
        connection.execute(
            text("UPDATE dead_letters SET kind = :kind WHERE reason LIKE :like"),
            {"kind": kind, "like": f"{reason}%"},
        )


def owe(group: str, kind: str, error: str | None = None) -> UUID:
    subject = uuid4()
    execute(
        """INSERT INTO pending_work (kind, subject_id, group_id, due_at, attempts, last_error)
                    VALUES (:kind, :id, :group, now() + '1 h'::interval, 3, :error)""",
        kind=kind,
        id=subject,
        group=group,
        error=error,
    )
    return subject


def remember(group: str, agent: str = "林岚") -> None:
    event = build(
        {"type": "memory.observed", "group_id": group, "agent_id": agent, "payload": {"description": "雨"}}
    )
    with whole_service(), unit_of_work() as connection:
        store(connection, [event])


def actions(group: str) -> list[str]:
    with whole_service(), unit_of_work() as connection:
        return [entry.action for entry in audit.entries(connection, group, None, 100)]


def html(browser: Browser, path: str, **query: Any) -> str:
    answer = browser.get(path, query_string=query or None)
    assert answer.status_code == 200, (path, answer.text)
    assert answer.mimetype == "text/html"
    return answer.text


@pytest.fixture
def operator(signed_in: Browser) -> Browser:
    return signed_in


@pytest.fixture(autouse=True)
def _nothing_is_left(database: object) -> Iterator[None]:
    yield
    execute("DELETE FROM pending_work WHERE attempts = 3 AND due_at > now()")


def test_every_page_answers_in_both_forms_with_data_and_with_nothing(operator: Browser, group: str) -> None:
    for filled in (False, True):
        if filled:
            remember(group)
            bury(group)
            owe(group, "test-page", "no answer")
        for path in [*PAGES, *OF_ADMINS, *OF_OPERATORS]:
            language, lang = ("zh-CN,zh;q=0.9", "zh") if filled else ("en", "en")
            answer = operator.get(path, query_string={"group": group}, headers={"Accept-Language": language})
            assert answer.status_code == 200, path
            assert f'<html lang="{lang}"' in answer.text
            answer = operator.get(JSON.get(path, f"{path}.json"), query_string={"group": group})
            assert answer.status_code == 200, path
            assert isinstance(answer.json, dict)


def test_a_query_with_a_name_that_addresses_are_made_with_is_only_a_query(
    operator: Browser, group: str
) -> None:
    names = "endpoint=x&_scheme=http&_anchor=a&_external=1"
    assert operator.get(f"/memories?group={group}&{names}").status_code == 200


def test_what_a_person_may_not_do_is_refused_and_not_shown(viewer, admin, operator):
    expected = {
        viewer: (PAGES, [*OF_ADMINS, *OF_OPERATORS]),
        admin: ([*PAGES, *OF_ADMINS], OF_OPERATORS),
        operator: ([*PAGES, *OF_ADMINS, *OF_OPERATORS], []),
    }
    for browser, (open_to, closed) in expected.items():
        page = html(browser, "/")
        for path in open_to:
            assert browser.get(path).status_code == 200, path
        for path in closed:
            assert browser.get(path).status_code == 403, path
            assert browser.get(f"{path}.json").status_code == 403, path
            assert f'href="{path}?' not in page
    assert viewer.get("/overview/series.json").status_code == 403


def test_no_change_is_open_to_who_may_only_look(viewer: Browser, web_app: Flask, group: str) -> None:
    """Taken from the table of routes, so that a new one cannot be forgotten."""
    names = {pages.name for pages in BLUEPRINTS} - {"account"}
    values = {
        "group": group,
        "agent": "a",
        "job": "prune",
        "kind": "embed",
        "name": "n",
        "key_id": "k",
        "queue": "upkeep",
        "worker": "w",
    }
    tried, open_ones = 0, []
    with web_app.test_request_context():
        urls = web_app.url_map.bind("localhost")
        for rule in web_app.url_map.iter_rules():
            if rule.endpoint.partition(".")[0] in names and "POST" in (rule.methods or ()):
                chosen = {
                    name: min(one.items)
                    for name, one in rule._converters.items()
                    if isinstance(one, AnyConverter)
                }
                filled = {name: chosen.get(name) or values.get(name, uuid4()) for name in rule.arguments}
                path = urls.build(rule.endpoint, filled, method="POST")
                if viewer.post(path).status_code != 403:
                    open_ones.append(rule.rule)
                tried += 1
    assert open_ones == []
    assert tried >= 10


def test_another_group_does_not_exist_for_who_may_not_see_it(admin: Browser, group: str) -> None:
    other = f"{group}-other"
    bury(other, "their reason")
    remember(other)
    owe(other, "test-theirs")
    for path in ("/", "/dead", "/work", "/keys", "/audit", "/erasure"):
        assert admin.get(path, query_string={"group": other}).status_code == 404
    admin.set_cookie("jiyi_group", other)
    for path in ("/", "/dead", "/work", "/work/test-theirs", "/audit"):
        page = html(admin, path)
        assert other not in page
        assert "their reason" not in page


def test_the_chosen_group_language_and_colours_are_kept_and_the_address_is_clean(operator, group):
    remember(group)
    assert f'href="/work?group={group}"' in html(operator, "/", group=group)
    assert operator.get("/dead.json").json["group"] == group
    assert operator.get("/dead.json", query_string={"group": "default"}).json["group"] == "default"
    answer = operator.get("/dead?language=zh&kind=embed")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/dead?kind=embed")
    assert "死信" in html(operator, "/dead")
    assert operator.get("/dead?theme=dark").headers["Location"] == "/dead"
    assert 'data-theme="dark"' in html(operator, "/dead")
    operator.get("/dead?theme=auto")
    assert "data-theme" not in html(operator, "/dead")
    operator.get("/dead?language=<script>")
    assert '<html lang="zh"' in html(operator, "/dead")
    answer = operator.get("/?theme=dark", environ_overrides={"PATH_INFO": "//evil.example/"})
    assert not answer.headers.get("Location", "/").startswith("//")


def test_text_of_others_is_escaped_on_every_page(operator: Browser, group: str) -> None:
    bury(group, EVIL)
    bury(group, "x" * 100_000)
    subject = owe(group, EVIL, EVIL * 100)
    with whole_service(), unit_of_work() as connection:
        audit.record(connection, group_id=group, actor=EVIL, action=EVIL, target=EVIL, note=EVIL)
    assert (
        operator.post(
            "/keys", query_string={"group": group}, data={"name": EVIL, "scope": "read"}
        ).status_code
        == 201
    )
    assert operator.post("/people", data={"name": EVIL, "role": "viewer", "groups": group}).status_code == 400
    letter = operator.get("/dead.json", query_string={"group": group, "words": "alert"}).json["letters"][0][
        "letter_id"
    ]
    link = re.search(r'href="(/work/%3Cscript[^"]+)"', html(operator, "/work"))
    assert link is not None
    paths = ("/dead", f"/dead/{letter}", "/work", link[1].replace("&amp;", "&"), "/keys", "/audit")
    for path in paths:
        page = operator.get(path + ("&" if "?" in path else "?") + f"group={group}").text
        assert "alert(" in page
        assert "<script>alert" not in page
        assert not code_in_attributes(page)
    with whole_service(), unit_of_work() as connection:
        complete(connection, EVIL, [subject])


def test_letters_are_found_by_state_kind_and_words(operator: Browser, group: str) -> None:
    bury(group, "100% wrong_field")
    bury(group, "other", kind="embed")
    for query, count in (
        ({}, 2),
        ({"kind": "embed"}, 1),
        ({"words": "WRONG_field"}, 1),
        ({"words": "100%"}, 1),
        ({"words": "1_0"}, 0),
        ({"words": "%"}, 1),
        ({"state": "replayed"}, 0),
    ):
        found = operator.get("/dead.json", query_string={"group": group, **query}).json["letters"]
        assert len([letter for letter in found if letter["group_id"] == group]) == count, query
    assert operator.get("/dead?state=lost").status_code == 400


def test_a_list_goes_on_in_place_and_as_a_link(operator: Browser, group: str) -> None:
    bury(group, "reason", count=60)
    page = html(operator, "/dead", group=group, words="reason")
    assert page.count('name="letter"') == 50
    fragment = re.search(r'hx-get="([^"]+)"', page.split('class="more"')[1])
    link = re.search(r'href="(/dead\?cursor[^"]+)"', page)
    assert fragment is not None
    assert link is not None
    rows = html(operator, fragment[1].replace("&amp;", "&"))
    assert (rows.count('name="letter"'), "<html" in rows) == (10, False)
    assert html(operator, link[1].replace("&amp;", "&")).count('name="letter"') == 10


def test_letters_are_decided_about_without_a_worker(operator: Browser, group: str) -> None:
    bury(group, count=2)  # what is tried again is refused again, and comes back
    bury(group, "given up", "embed", count=3)  # of the intake an operator sees also those of no known group
    letters = operator.get("/dead.json", query_string={"group": group, "words": "why"}).json["letters"]
    mine = [letter["letter_id"] for letter in letters if letter["group_id"] == group]
    for form, told in (
        ({"action": "replay", "letter": mine[0]}, "1 is retried."),
        ({"action": "discard", "letter": mine[1]}, "1 is discarded."),
        ({"action": "discard", "all_of": "embed"}, "3 are discarded."),
    ):
        assert told in operator.post("/dead/resolve", query_string={"group": group}, data=form).text
    assert (
        operator.get(f"/dead/{mine[0]}.json", query_string={"group": group}).json["letter"]["state"]
        == "replayed"
    )
    with whole_service(), unit_of_work() as connection:
        noted = [
            row for row in audit.entries(connection, group, None, 10) if row.action == "dead_letters.resolve"
        ]
    assert {row.actor for row in noted} == {operator.user.actor}  # type: ignore[attr-defined]
    assert [row.details["count"] for row in noted] == [3, 1, 1]
    for wrong in ({}, {"action": "burn", "letter": mine[0]}, {"action": "replay"}, {"action": "replay", "letter": "x"},
                  {"action": "replay", "letter": mine[0], "all_of": "embed"}, {"action": "discard", "all_of": "a\0b"}):  # fmt: skip
        assert operator.post("/dead/resolve", data=wrong).status_code in (400, 404), wrong


def test_the_schedule_is_shown_without_a_worker(sign_in: SignIn, service: str) -> None:
    operator = sign_in("operator")
    jobs = {job["job"]: job for job in operator.get("/schedules.json").json["jobs"]}
    assert jobs.keys() == JOBS.keys()
    assert (jobs["prune"]["schedule"], jobs["backup"]["schedule"]) == ("daily at 05:00 UTC", "off")
    assert jobs["reconcile"]["next"] is not None
    assert operator.post("/schedules/no_such_job/run").status_code == 404
    assert operator.post("/schedules/No%20Job/run").status_code == 400


def test_work_is_made_due_and_noted(operator: Browser, admin: Browser, group: str) -> None:
    first, second, theirs = (
        owe(group, "test-retry"),
        owe(group, "test-retry"),
        owe(f"{group}-other", "test-retry"),
    )
    assert "1 is due now." in admin.post("/work/test-retry/retry", data={"subject": str(first)}).text
    assert "2 are due now." in admin.post("/work/test-retry/retry").text
    with whole_service(), unit_of_work() as connection:
        rows = connection.execute(
            text("SELECT subject_id, attempts FROM pending_work WHERE kind = 'test-retry'")
        ).all()
        assert dict(rows) == {first: 0, second: 0, theirs: 3}  # type: ignore[arg-type]
    assert actions(group) == ["pending_work.retry"] * 2
    assert "1 is due now." in operator.post("/work/test-retry/retry", data={"subject": str(theirs)}).text
    with whole_service(), unit_of_work() as connection:
        complete(connection, "test-retry", [first, second, theirs])


def test_a_key_is_made_shown_once_replaced_and_revoked(admin: Browser, group: str) -> None:
    answer = admin.post("/keys", data={"name": "crawler", "scope": ["read", "publish"], "days": "30"})
    assert answer.status_code == 201
    secret = re.search(r'id="secret">(jiyi_([a-z0-9]{12})_[\w-]{43})<', answer.text)
    assert secret is not None
    assert secret[1] not in html(admin, "/keys")
    assert admin.get("/api/v1/agents", headers={"Authorization": f"Bearer {secret[1]}"}).status_code == 200
    replaced = admin.post(f"/keys/{secret[2]}/rotate", data={"grace": "0"})
    new = re.search(r'id="secret">(jiyi_([a-z0-9]{12})_[\w-]{43})<', replaced.text)
    assert new is not None
    assert admin.post(f"/keys/{new[2]}/revoke").status_code == 200
    states = {key["key_id"]: key["state"] for key in admin.get("/keys.json").json["keys"]}
    assert states == {secret[2]: "expired", new[2]: "revoked"}
    assert set(actions(group)) == {"keys.create", "keys.rotate", "keys.revoke"}
    for form in (
        {"name": ""},
        {"name": "x"},
        {"name": "x", "scope": "operator"},
        {"name": "x", "scope": "read", "days": "7"},
    ):
        assert admin.post("/keys", data=form).status_code == 400, form
    assert admin.post("/keys/aaaaaaaaaaaa/revoke").status_code == 404


def test_only_an_operator_makes_a_key_of_the_whole_service(admin: Browser, operator: Browser) -> None:
    made = admin.post("/keys", data={"name": "all", "of": "service", "scope": "read"})
    assert made.status_code == 201
    assert all(key["group_id"] for key in admin.get("/keys.json").json["keys"])
    assert operator.post("/keys", data={"name": "all", "of": "service"}).status_code == 201
    assert any(key["group_id"] is None for key in operator.get("/keys.json").json["keys"])


def test_people_are_added_disabled_and_given_passwords(operator: Browser, web_app: Flask, group: str) -> None:
    name = f"mia.{group}@x+y"
    answer = operator.post("/people", data={"name": name, "role": "admin", "groups": f"{group}, other"})
    assert answer.status_code == 201
    person = next(one for one in operator.get("/people.json").json["people"] if one["name"] == name)
    assert (person["role"], person["groups"]) == ("admin", sorted([group, "other"]))
    links = re.findall(r'"(/people/[^"?]+/(?:password|disable))', html(operator, "/people"))
    mine = [link for link in links if group in link]
    assert len(mine) == 2
    for link in mine:
        assert operator.post(link).status_code in (200, 201)
    assert next(one for one in operator.get("/people.json").json["people"] if one["name"] == name)[
        "disabled_at"
    ]
    assert operator.post("/people", data={"name": name, "role": "viewer", "groups": group}).status_code == 400
    assert operator.post("/people", data={"name": "x", "role": "king"}).status_code == 400
    assert operator.post("/people/nobody-here/disable").status_code == 404


def test_ones_own_password_is_changed_with_the_old_one(viewer: Browser) -> None:
    new = "another good password"
    for form, status in (
        ({"old": "wrong", "new": new, "again": new}, 403),
        ({"old": PASSWORD, "new": new, "again": "different"}, 400),
        ({"old": PASSWORD, "new": "short", "again": "short"}, 400),
    ):
        assert viewer.post("/account/password", data=form).status_code == status, form
    answer = viewer.post("/account/password", data={"old": PASSWORD, "new": new, "again": new})
    assert answer.status_code == 303
    assert "Password changed" in html(viewer, answer.headers["Location"])


def test_a_dead_database_and_valkey_leave_the_frame_standing(operator: Browser, group: str) -> None:
    html(operator, "/", group=group)
    with away("database"):
        for path in ("/dead", "/keys", "/people", "/audit", "/erasure"):
            answer = operator.get(path)
            assert answer.status_code == 503, path
            assert "database did not answer" in answer.text
    with away("database", "valkey", "broker"):
        assert "Unknown: " in html(operator, "/work")
        assert all(row["waiting"] is None for row in operator.get("/work.json").json["queues"])
        assert operator.get("/queues/embedding").status_code == 503
        assert operator.get("/overview/series.json").status_code == 503


def test_the_figures_over_time_come_as_columns_of_one_length(operator: Browser) -> None:
    for minutes in (1, 60, 360, 1_440):
        found = operator.get(f"/overview/series.json?minutes={minutes}").json
        length = len(found["times"])
        for name in ("events", "events_rejected", "done", "failed", "wait", "wait_max"):
            assert len(found[name]) == length, name
        assert {len(column) for column in found["retrieval_ms"].values()} == {length}
    assert operator.get("/overview/series.json?minutes=0").status_code == 400


def test_an_audit_is_read_page_by_page_with_filters(operator: Browser, admin: Browser, group: str) -> None:
    with whole_service(), unit_of_work() as connection:
        for n in range(60):
            audit.record(connection, group_id=group, actor=f"user:{n % 2}", action="tested", target=f"t{n}")
    first = admin.get("/audit.json").json
    second = admin.get("/audit.json", query_string={"cursor": first["next"]}).json
    assert [entry["target"] for entry in first["entries"] + second["entries"]] == [
        f"t{n}" for n in reversed(range(60))
    ]
    assert second["next"] is None
    one = operator.get(
        "/audit.json", query_string={"group": group, "only": "group", "actor": "user:1", "target": "t1"}
    ).json
    assert {entry["target"] for entry in one["entries"]} == {"t1", *(f"t{n}" for n in range(11, 20, 2))}


def test_an_erasure_wants_the_name_typed_once_more(admin: Browser, group: str) -> None:
    remember(group, "Klaus")
    for form in (
        {"names": ""},
        {"names": "Klaus", "kind": "agent"},
        {"names": "Klaus", "kind": "agent", "again": "klaus"},
        {"names": "Klaus\nMaria", "kind": "agent", "again": "Klaus"},
        {"names": "x", "kind": "person", "again": "x"},
    ):
        assert admin.post("/erasure", data=form).status_code == 400, form
    assert (
        admin.post("/erasure", data={"names": "Nobody", "kind": "agent", "again": "Nobody"}).status_code
        == 404
    )
    answer = admin.post("/erasure", data={"names": "Klaus", "kind": "agent", "again": "Klaus"})
    assert answer.status_code == 303
    page = html(admin, answer.headers["Location"])
    assert "Klaus" not in page.split("<main", 1)[1]
    assert admin.get("/erasure.json").json["erasures"][0]["kind"] == "agent"
    assert actions(group) == ["erasure.request"]


def test_unknown_things_are_not_found(operator: Browser) -> None:
    for path in (
        "/queues/celery",
        f"/dead/{uuid4()}",
        f"/erasure/{uuid4()}",
        "/dead?cursor=x",
        "/work?group=a%00b",
    ):
        assert operator.get(path).status_code in (400, 404), path
    assert "No work of this kind is pending." in html(operator, "/work/no-such-kind")
