"""The pages of the tiers: with data, with nothing, with bad input, for whom they are, and while a part is
away.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from uuid import UUID, uuid4

import pytest

from engine.tiers.quarantine import SENTENCES
from jiyi import Client
from jiyi.protocol.knowledge import PromoteBody
from jiyi.protocol.tier_questions import MemoryAnswer
from jiyi.tiers.retrieval_node import format_history
from models.accounts import audit
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.tiers import actions, digests, working
from models.tiers import query as memory
from tests.integration.away import away
from tests.integration.conftest import Browser, SignIn
from tests.integration.fields import check_fields
from tests.integration.memory.test_admin_memories import attributes
from tests.integration.memory.test_inbox import execute, save
from tests.integration.tiers.outputs import TEXTS, output, say, tasks
from tests.integration.web.test_web import data, page
from web.admin import knowledge, tiers

EVIL = "<script>alert('记')</script>\" onmouseover=\"x"


def promote(group: str, **fields: Any) -> list[UUID]:
    done = actions.promote.perform(Actor(group, "test"), PromoteBody(**fields))
    return [piece.knowledge_id for piece in done.pieces if piece.knowledge_id is not None]


def digest(group: str) -> UUID:
    """A digest of the last day, made here."""
    now = datetime.now(UTC) + timedelta(seconds=1)
    with for_groups(group):
        digest_id: UUID = tasks("tiers").make(group, now - timedelta(days=1), now, "test")[0]
    return digest_id


def audited(group: str) -> list[audit.AuditEntry]:
    with unit_of_work() as connection:
        return audit.entries(connection, group, None, 100)


def test_a_group_without_anything_has_pages(viewer: Browser, group: str) -> None:
    for path in ("/tiers", "/quarantine", "/working", "/knowledge", "/digests", "/ask"):
        assert 'class="empty"' in page(viewer, path, group=group)
        assert data(viewer, f"{path}.json", group=group)["group"] == group


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no worker; nobody waits for one."""
    monkeypatch.setattr(tiers, "TIMEOUT", 0.2)
    monkeypatch.setattr(knowledge, "DIGEST_TIMEOUT", 0.2)


@pytest.mark.usefixtures("impatient")
def test_all_pages_escape_what_others_wrote(admin: Browser, group: str) -> None:
    said = EVIL + TEXTS[0]
    evil: dict[str, Any] = dict.fromkeys(
        ("session_id", "agent_id", "node_id", "node_name", "node_type"), EVIL
    )
    (entry,) = say(group, said, confidence=0.9, metadata={EVIL: EVIL}, provenance={EVIL: EVIL}, **evil)
    (kept,) = promote(group, text=said, agent_id=EVIL, reason=EVIL)
    (also,) = promote(group, entry_ids=[entry])
    made = digest(group)
    say(group, EVIL, session_id=EVIL, flags=["evil"])
    paths = [
        "/tiers",
        "/quarantine",
        "/working",
        "/knowledge",
        "/digests",
        f"/quarantine/{entry}",
        f"/knowledge/{kept}",
    ]
    paths += [
        f"/knowledge/{also}",
        f"/digests/{made}",
        f"/promotion?entry={entry}",
        f"/promotion?knowledge={kept}",
    ]
    paths += ["/quarantine/rows", "/knowledge/rows", "/digests/rows", "/tiers/live", "/working/live"]
    for path in paths:
        for language in ("en", "zh-CN"):
            html = admin.get(path, headers={"Accept-Language": language}).text
            assert "<script>alert" not in html, path
            assert not attributes(html) & {"style", "onmouseover", "onclick"}, path
            if not path.startswith("/digests"):
                assert "alert(&#39;记&#39;)" in html, path
    query = {
        "group": group,
        "q": EVIL,
        "session": EVIL,
        "node": EVIL,
        "agent": EVIL,
        "reason": "x<script>",
        "query": EVIL,
    }
    for path in ("/quarantine", "/knowledge", "/ask"):
        html = page(admin, path, **query)
        assert "<script>alert" not in html
        assert "x<script>" not in html
        assert "onmouseover" not in attributes(html)


def test_the_overview_counts_what_the_filters_decided_in_a_span_of_time(viewer: Browser, group: str) -> None:
    say(group, *TEXTS[:2], confidence=0.9)
    say(group, TEXTS[2], confidence=0.3)
    (old,) = say(group, "Agreed.")
    promote(group, text="The kiln holds sixty bowls.", kind="verdict")
    save(output(group, TEXTS[3]))  # nobody has screened it
    found = data(viewer, "/tiers.json", group=group)
    counts = found["counts"]
    assert (counts["entries"], counts["waiting"], counts["working"], counts["rejected"]) == (5, 1, 2, 2)
    assert (counts["knowledge"], counts["verdicts"], counts["demoted"]) == (1, 1, 0)
    assert found["screened"] == {"accepted": 2, "low_confidence": 1, "too_short": 1}
    assert [one["outcome"] for one in found["outcomes"]] == ["accepted", "low_confidence", "too_short"]
    assert [one["state"] for one in found["tiers"]] == ["ok", "ok", "attention"], (
        "knowledge has no vector yet"
    )
    assert [entry["content"] for entry in found["waiting"]] == [TEXTS[3]]
    assert {entry["content"] for entry in found["entries"]} == set(TEXTS[:2])
    html = page(viewer, "/tiers", group=group)
    assert "low confidence" in html
    assert "temporary · unverified" in html
    execute("UPDATE quarantine_logs SET received_at = now() - interval '3 days' WHERE entry_id = :id", id=old)
    assert data(viewer, "/tiers.json", group=group, days="1")["screened"] == {
        "accepted": 2,
        "low_confidence": 1,
    }
    assert data(viewer, "/tiers.json", group=group)["screened"] == found["screened"]
    assert viewer.get("/tiers", query_string={"days": "2"}).status_code == 400


def test_quarantine_is_filtered_and_bad_filters_are_refused(viewer: Browser, group: str) -> None:
    ids = {
        "a": say(group, TEXTS[0], session_id="s1", confidence=0.9)[0],
        "b": say(group, TEXTS[1], session_id="s1", confidence=0.2)[0],
        "c": say(group, "Agreed.", agent_id="Mira")[0],
        "d": say(group, TEXTS[2], node_id="judge", confidence=0.95)[0],
    }
    promote(group, entry_ids=[ids["d"]])
    event = output(group, TEXTS[3])
    save(event)
    ids["e"] = event.event_id
    names = {str(entry_id): name for name, entry_id in ids.items()}
    filters: dict[tuple[str, str], str] = {
        ("state", ""): "abcde",
        ("state", "waiting"): "e",
        ("state", "accepted"): "a",
        ("state", "rejected"): "bc",
        ("state", "promoted"): "d",
        ("state", "expired"): "",
        ("reason", "too_short"): "c",
        ("session", "s1"): "ab",
        ("node", "judge"): "d",
        ("agent", "Mira"): "c",
        ("at_least", "0.9"): "ad",
        ("below", "0.9"): "b",
        ("unscored", "1"): "ce",
        ("q", "KILN cups"): "a",
        ("q", "渡口"): "d",
        ("q", "%"): "",
        ("q", "_"): "",
    }
    for (name, value), expected in filters.items():
        found = data(viewer, "/quarantine.json", group=group, **{name: value})["entries"]
        assert sorted(names[entry["entry_id"]] for entry in found) == list(expected), (name, value)
    for query in (
        "state=x",
        "at_least=2",
        "below=x",
        "unscored=2",
        "cursor=x",
        "q=" + "x" * 300,
        "session=%00",
    ):
        assert viewer.get(f"/quarantine?{query}").status_code in (400, 404), query


def test_lists_go_on_page_by_page_whatever_arrives(viewer: Browser, group: str) -> None:
    now = datetime.now(UTC)
    save(*(output(group, f"number {n}", occurred_at=now - timedelta(minutes=n // 2)) for n in range(70)))
    for n in range(35):
        promote(group, text=f"fact number {n}")
    for path, rows, total in (("/quarantine", "entries", 70), ("/knowledge", "pieces", 35)):
        seen: list[str] = []
        before: str | None = ""
        while before is not None:
            found = data(viewer, f"{path}.json", group=group, cursor=before)
            seen += [row["content"] for row in found[rows]]
            before = found["next"]
            save(output(group, "later"))
        assert len(seen) == len(set(seen)) == total, path
        assert 'hx-swap="outerHTML">More' in page(viewer, path, group=group)


def test_an_entry_tells_why_it_was_kept_out_and_what_it_repeats(viewer: Browser, group: str) -> None:
    (first,) = say(group, TEXTS[0])
    (again,) = say(group, TEXTS[0], metadata={"round": 2}, provenance={"run": "r-7"})
    html = page(viewer, f"/quarantine/{again}", group=group)
    assert "said before, word for word" in html
    assert f"/quarantine/{first}?" in html
    assert "&#34;run&#34;: &#34;r-7&#34;" in html
    assert "temporary · unverified" in html
    assert "Promote" not in re.sub(r"Nothing: nobody has promoted it", "", html)
    assert data(viewer, f"/quarantine/{again}.json", group=group)["entry"]["rejected_details"][
        "entry"
    ] == str(first)


def test_every_reason_has_a_word() -> None:
    assert knowledge.REASONS.keys() == SENTENCES.keys()


def test_what_another_group_has_is_not_there(admin: Browser, sign_in: SignIn, group: str) -> None:
    other = f"other-{uuid4().hex[:8]}"
    (entry,) = say(other, TEXTS[0])
    (kept,) = promote(other, text="only theirs")
    made = digest(other)
    for path in (f"/quarantine/{entry}", f"/knowledge/{kept}", f"/digests/{made}"):
        for form in (path, f"{path}.json"):
            assert admin.get(form).status_code == 404, form
            assert admin.get(form, query_string={"group": other}).status_code == 404, form
    for query in (f"entry={entry}", f"digest={made}&item=1", f"knowledge={kept}"):
        assert admin.get(f"/promotion?{query}").status_code == 404, query
    for path in ("/promotion", "/promotion/preview"):
        assert admin.post(path, data={"entry": str(entry)}).status_code == 404
    assert admin.post(f"/knowledge/{kept}/edit", data={"content": "ours"}).status_code == 404
    assert admin.post(f"/knowledge/{kept}/demote").status_code == 404
    assert "0 entries are deleted" in admin.post("/quarantine/delete", data={"entry": str(entry)}).text
    assert sign_in("operator").get(f"/quarantine/{entry}", query_string={"group": other}).status_code == 200
    for path in ("/quarantine", "/working", "/knowledge", "/digests", "/tiers"):
        assert TEXTS[0] not in page(admin, path)


def test_who_may_only_look_is_shown_no_changes(viewer: Browser, group: str) -> None:
    (entry,) = say(group, TEXTS[0])
    (kept,) = promote(group, text="it is so")
    made = digest(group)
    assert viewer.get("/promotion", query_string={"entry": str(entry)}).status_code == 403
    lists = ("/quarantine", "/knowledge", "/digests")
    for path in (*lists, f"/quarantine/{entry}", f"/knowledge/{kept}", f"/digests/{made}"):
        html = page(viewer, path, group=group)
        assert "hx-post" not in html, path
        assert "/promotion" not in html.replace('action="/promotion"', ""), path
        assert 'type="checkbox" name="entry"' not in html, path


def test_promotion_shows_its_pieces_first_and_what_is_left_as_it_was_is_the_entry_itself(
    admin: Browser, group: str
) -> None:
    (entry,) = say(group, TEXTS[0], session_id="s1", metadata={"round": 2})
    html = page(admin, "/promotion", entry=str(entry))
    assert html.count(TEXTS[0]) == 2, "in the field, and as a piece"
    found = admin.post("/promotion/preview", data={"entry": str(entry), "text": "So it is said. " * 60})
    assert found.status_code == 200
    assert len(re.findall("<li", found.text)) == 2
    assert "Nothing is chosen or written yet" in admin.post("/promotion/preview", data={"text": " "}).text
    assert admin.post("/promotion/preview", data={"text": "x", "kind": "rumour"}).status_code == 400
    assert admin.post("/promotion/preview", data={"entry": "x"}).status_code == 400
    assert data(admin, "/knowledge.json")["pieces"] == [], "nothing was changed by that"

    answer = admin.post("/promotion", data={"entry": str(entry), "text": TEXTS[0] + "\r\n", "note": "true"})
    assert answer.status_code == 200
    (address,) = set(re.findall(r'href="(/knowledge/[0-9a-f-]+)\?', answer.text))
    piece = data(admin, f"{address}.json")["piece"]
    assert (piece["content"], piece["session_id"], piece["metadata"]["round"]) == (TEXTS[0], "s1", 2)
    assert data(admin, f"/quarantine/{entry}.json")["entry"]["state"] == "promoted"
    again = admin.post(
        "/promotion", data={"entry": str(entry), "text": TEXTS[0]}, headers={"HX-Request": "true"}
    )
    assert "nothing has changed" in again.text
    assert "<html" not in again.text
    (row,) = [row for row in audited(group) if row.action == "knowledge.promote"]
    assert row.actor == f"user:{admin.user.name}"  # type: ignore[attr-defined]


def test_several_entries_are_promoted_each_or_as_one_text_and_one_is_deleted(
    admin: Browser, group: str
) -> None:
    ids = [str(entry_id) for entry_id in say(group, *TEXTS[:3])]
    html = page(admin, "/promotion", entry=ids)
    assert '<textarea name="text"' in html
    assert admin.post("/promotion", data={"entry": ids[:2], "text": ""}).status_code == 200
    assert {piece["content"] for piece in data(admin, "/knowledge.json")["pieces"]} == set(TEXTS[:2])
    form = {"entry": ids, "text": "All of it, in a word.", "kind": "verdict", "agent": "林岚"}
    assert admin.post("/promotion", data=form).status_code == 200
    (one,) = data(admin, "/knowledge.json", agent="林岚")["pieces"]
    assert (one["content"], one["kind"]) == ("All of it, in a word.", "verdict")
    assert len(data(admin, f"/knowledge/{one['knowledge_id']}.json")["sources"]) == 3
    assert admin.post("/promotion", data={"text": ""}).status_code == 400
    assert admin.post("/promotion", data={"entry": [str(uuid4())] * 101}).status_code == 400
    answer = admin.post("/quarantine/delete", data={"entry": ids[0]})
    assert "1 entry is deleted" in answer.text
    assert admin.get(f"/quarantine/{ids[0]}").status_code == 404
    assert ids[0] not in {entry["entry_id"] for entry in data(admin, "/working.json")["entries"]}
    assert admin.post("/quarantine/delete").status_code == 400


def test_knowledge_is_listed_edited_and_demoted_with_its_history(admin: Browser, group: str) -> None:
    (old,) = promote(group, text="The kiln holds sixty bowls.", reason="counted")
    answer = admin.post(f"/knowledge/{old}/edit", data={"content": "It holds fifty.", "reason": "ten broke"})
    assert answer.status_code == 303
    new = re.search(r"/knowledge/([0-9a-f-]+)\?", answer.headers["Location"])
    assert new is not None
    found = data(admin, f"/knowledge/{new[1]}.json")
    assert [change["action"] for change in found["history"]] == ["edited", "promoted"], (
        "that of the version before, too"
    )
    check_fields(found["history"][0], before="The kiln holds sixty bowls.", after="It holds fifty.")
    assert found["replaces"] == str(old)
    html = page(admin, f"/knowledge/{new[1]}", done="edited")
    assert "ten broke" in html
    assert f'<strong dir="auto">{admin.user.name}</strong>' in html  # type: ignore[attr-defined]
    assert "Another version has taken its place" in page(admin, f"/knowledge/{old}")
    assert admin.post(f"/knowledge/{old}/edit", data={"content": "of the old one"}).status_code == 404
    assert admin.post(f"/knowledge/{new[1]}/edit", data={"content": " "}).status_code == 400
    gone = admin.post(f"/knowledge/{new[1]}/demote", data={"reason": "no"}, headers={"HX-Request": "true"})
    assert gone.status_code == 204
    assert gone.headers["HX-Redirect"].startswith(f"/knowledge/{new[1]}?")
    listed = {
        choice: data(admin, "/knowledge.json", demoted=choice)["pieces"]
        for choice in ("without", "with", "only")
    }
    assert {choice: len(pieces) for choice, pieces in listed.items()} == {"without": 0, "with": 2, "only": 2}
    assert "It holds fifty." in page(admin, "/promotion", knowledge=new[1])
    actions = [row.action for row in audited(group)]
    assert actions[:2] == ["knowledge.demote", "knowledge.edit"]


def test_working_memory_tells_how_long_yet(viewer: Browser, group: str) -> None:
    now = datetime.now(UTC)
    say(group, TEXTS[0], occurred_at=now - timedelta(minutes=5), provenance={"run": "r-7"}, flags=["special"])
    say(group, TEXTS[1], occurred_at=now)
    found = data(viewer, "/working.json", group=group)
    assert [entry["content"] for entry in found["entries"]] == [TEXTS[1], TEXTS[0]]
    html = page(viewer, "/working", group=group)
    for said in ("23 h left", "temporary · unverified", "r-7", "special", "2 of 50 slots"):
        assert said in html, said
    working.forget(group)
    assert len(data(viewer, "/working.json", group=group)["entries"]) == 2, "what the database knows"


def test_a_digest_is_read_and_promoted_from(admin: Browser, group: str) -> None:
    ids = say(group, TEXTS[0], TEXTS[4], session_id="s1")
    made = digest(group)
    assert str(made) in page(admin, "/digests", group=group)
    found = data(admin, f"/digests/{made}.json")
    items = found["digest"]["items"]
    assert {entry for item in items for entry in item["entry_ids"]} == {str(entry_id) for entry_id in ids}
    html = page(admin, f"/digests/{made}")
    assert TEXTS[0] in html
    assert items[0]["summary"] in unescape(page(admin, "/promotion", digest=str(made), item="1"))
    form = {"text": items[0]["summary"], "entry": items[0]["entry_ids"]}
    assert "new" in admin.post("/promotion", data=form, headers={"HX-Request": "true"}).text
    assert data(admin, f"/digests/{made}.json")["digest"]["items"][0]["promoted"] == len(
        items[0]["entry_ids"]
    )
    assert admin.get("/promotion", query_string={"digest": str(made), "item": "99"}).status_code == 404
    assert admin.get(f"/digests/{uuid4()}").status_code == 404


@pytest.mark.usefixtures("impatient")
def test_without_a_worker_the_pages_of_digests_and_questions_say_so(admin: Browser, group: str) -> None:
    answer = admin.post("/digests", data={"days": "7"})
    assert answer.status_code == 503
    assert "reflection" in answer.text
    assert admin.post("/digests", data={"days": "-1"}).status_code == 400
    with unit_of_work() as connection:
        assert digests.listed(connection, group) == []
    assert "No answer" in page(admin, "/ask", group=group, query="kiln")


def test_asking_shows_the_list_and_the_very_text(
    viewer: Browser, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(group, TEXTS[0])
    promote(group, text="Cups crack when the kiln cools too fast.")
    asked: list[Any] = []

    def answered(what: str, queue: str, query: Any, timeout: float) -> Any:
        asked.append(query)
        with for_groups(query.group_id):
            return memory.query_memory(query).model_dump_json().encode()

    monkeypatch.setattr(
        tiers, "caller", lambda: type("Caller", (), {"call_for_json": staticmethod(answered)})
    )
    found = data(viewer, "/ask.json", group=group, query="kiln", relevance_threshold="-1", headings="en")
    answer = MemoryAnswer.model_validate(found["answer"])
    assert [item.source for item in answer.results] == ["hot", "cold"]
    assert found["history_context"] == format_history(answer.results, "en")
    assert asked[0].max_results == 5
    assert asked[0].time_range_days == 7
    html = page(viewer, "/ask", group=group, query="kiln", relevance_threshold="-1")
    assert '### 记录 1 (相关度: 1.00) ⚡ 临时，未验证\n"' + TEXTS[0] in unescape(html)
    assert "temporary · unverified" in html
    data(viewer, "/ask.json", group=group, query="kiln", sent="1", order="score", session="s1", agent="a")
    last = asked[-1]
    check_fields(
        last, time_range_days=None, include_verdicts=False, order="score", session_id="s1", agent_id="a"
    )
    fragment = viewer.get("/ask/answer", query_string={"group": group, "query": "kiln"})
    assert fragment.headers["HX-Replace-Url"].startswith("/ask?")
    for bad in ({"max_results": "0"}, {"order": "x"}, {"relevance_threshold": "3"}, {"web_results": "99"}):
        assert viewer.get("/ask", query_string={"query": "x", **bad}).status_code == 400


def test_with_valkey_or_the_database_away_the_pages_say_what_is_left(viewer: Browser, group: str) -> None:
    say(group, TEXTS[0])
    promote(group, text="Cups crack when the kiln cools too fast.")
    page(viewer, "/tiers", group=group)
    with away("valkey", "broker"):
        found = data(viewer, "/tiers.json", group=group)
        assert [one["state"] for one in found["tiers"]] == ["ok", "unreachable", "attention"]
        assert "Valkey does not answer" in page(viewer, "/working", group=group)
        entries = data(viewer, "/working.json", group=group)["entries"]
        assert [entry["content"] for entry in entries] == [TEXTS[0]]
        found = data(viewer, "/ask.json", group=group, query="kiln cools", relevance_threshold="-1")
        states = [(one["tier"], one["state"]) for one in found["answer"]["tiers"]]
        assert states == [("working", "failed"), ("longterm", "ok")]
        assert "Cups crack" in found["history_context"]
    with away("database"):
        found = data(viewer, "/tiers.json", group=group)
        assert [one["state"] for one in found["tiers"]] == ["unreachable", "attention", "unreachable"]
        assert found["counts"] is None
        assert TEXTS[0] in page(viewer, "/tiers", group=group)
        assert "The database does not answer" in page(viewer, "/working", group=group)
        for path in ("/quarantine", "/knowledge", "/digests"):
            assert "database did not answer" in page(viewer, path, status=503, group=group)
    with away("database", "valkey", "broker"):
        page(viewer, "/working", status=503, group=group)
        found = data(viewer, "/tiers.json", group=group)
        assert [one["state"] for one in found["tiers"]] == ["unreachable"] * 3


def test_a_running_service_answers_and_digests(sign_in: SignIn, client: Client) -> None:
    browser = sign_in("admin", groups=[client.group])
    assert client.ingest(TEXTS[0], session_id="s1").accepted  # type: ignore[union-attr]
    found = data(browser, "/ask.json", query="kiln", group=client.group)
    assert found["answer"]["status"] == "ok"
    assert TEXTS[0] in found["history_context"]
    answer = browser.post("/digests", data={"days": "7"})
    assert answer.status_code == 303, answer.text
    assert TEXTS[0] in page(browser, answer.headers["Location"])
    assert [(row.action, row.actor) for row in audited(client.group)] == [
        ("digests.make", f"user:{browser.user.name}")
    ]
