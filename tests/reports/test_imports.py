"""Imports: nothing that was said is lost, and what lands where is as it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from jiyi import Client
from jiyi.cli.app import app
from jiyi.errors import InvalidRequest
from jiyi.imports.conversations import chatgpt, claude, open_webui
from jiyi.imports.drafts import Draft, Drafts, ImportTarget, LeftOut
from jiyi.imports.import_run import ImportRun, Report
from jiyi.polling import poll
from jiyi.protocol import events as wire
from jiyi.protocol.wire.signatures import new_key
from jiyi.settings import get_settings
from tests.integration.memory.test_inbox import rows
from tests.misbehaving import Reply, Request, Vendor, vendor


class Groups:
    """The REST API as far as an import needs it: what was stored in which group. ``own`` None: an operator's
    key.
    """

    def __init__(self, own: str | None) -> None:
        self.own, self.stored = own, dict[str, list[str]]()

    def __call__(self, request: Request) -> Reply:
        named, body = request.headers.get("jiyi-group"), request.body
        if self.own is not None and named not in (None, self.own):
            return problem(403, "this key speaks for its own group")
        group = named or self.own or "default"
        if not request.path.endswith("/events"):
            rows = [{"event_id": each, "state": "unknown"} for each in body["ids"]]
            return answer({"rows": rows}, group)
        events = body.get("events", [body])
        if any(event.get("group_id") not in (None, group) for event in events):
            return problem(422, "group_id: not this key's group")
        self.stored.setdefault(group, []).extend(event["payload"]["description"] for event in events)
        return answer({"event_ids": [], "accepted": len(events), "repeated": 0, "status_url": ""}, group)


def answer(content: Any, group: str) -> Reply:
    return Reply(body=json.dumps(content).encode(), headers={"Jiyi-Group": group})


def problem(status: int, detail: str) -> Reply:
    return Reply(status, json.dumps({"title": "no", "detail": detail, "status": status}).encode())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    """Whose ``otherwise`` answers over HTTP."""
    with vendor() as running:
        monkeypatch.setenv("JIYI_URL", running.base_url.removesuffix("/v1"))
        monkeypatch.setenv("JIYI_KEY", str(new_key()))
        get_settings.cache_clear()
        yield running
    get_settings.cache_clear()


def brought_in(groups: Groups, server: Vendor, folder: Path, *options: str) -> Result:
    """Lines of two groups, imported."""
    server.otherwise = groups
    lines = [
        {"agent_id": "t", "description": f"Of {group}", "group_id": group, "poignancy": 3}
        for group in ("tenA", "tenB")
    ]
    file = folder / "events.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return CliRunner().invoke(app, ["import", "jsonl", str(file), "--no-wait", "--json", *options])


def test_over_http_lines_come_into_their_group_or_into_that_of_the_key_as_is_told(
    server: Vendor, tmp_path: Path
) -> None:
    for own, options, stored in (
        (None, ["--keep-group"], {"tenA": ["Of tenA"], "tenB": ["Of tenB"]}),
        ("tenA", [], {"tenA": ["Of tenA", "Of tenB"]}),
    ):
        groups = Groups(own)
        done = brought_in(groups, server, tmp_path, *options)
        assert done.exit_code == 0, done.output
        assert groups.stored == stored
        assert json.loads(done.stdout)["groups"] == [*stored]


def test_over_http_what_is_of_another_group_than_the_key_s_is_refused_before_anything_is_stored(
    server: Vendor, tmp_path: Path
) -> None:
    groups = Groups("tenA")
    refused = brought_in(groups, server, tmp_path, "--keep-group")
    assert refused.exit_code == 1
    assert "'tenB'" in refused.stderr
    assert "operator" in refused.stderr
    event = {"type": "memory.observed", "group_id": "tenB", "agent_id": "t", "payload": {"description": "x"}}
    with Client() as client, pytest.raises(InvalidRequest, match="not this key's group"):
        client.observe_many([wire.build(event)])
    assert groups.stored == {}


# Files of others

AT = 1_684_922_400.0
TARGET = ImportTarget(source="x", group="g", now=datetime(2026, 3, 2, tzinfo=UTC))


def said(drafts: Drafts) -> list[str]:
    """The texts of the turns, in their order."""
    events = [event for draft in drafts if isinstance(draft, Draft) for event in TARGET.events(draft)]  # type: ignore[union-attr]
    return [event.payload.text for event in events]  # type: ignore[union-attr]


def claude_chat(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"uuid": "k", "name": "n", "created_at": "2026-01-02T03:04:05Z", "chat_messages": list(messages)}


def of_human(text: str, *attachments: dict[str, Any], uuid: str = "m", **more: Any) -> dict[str, Any]:
    sent = {"text": text, "content": [], "attachments": list(attachments)}
    return {"uuid": uuid, "sender": "human", **sent, **more}


def test_what_somebody_pasted_into_claude_is_what_they_said() -> None:
    """A long text that is pasted lies in `extracted_content`, and was dropped."""
    pasted = {"file_name": "", "extracted_content": "My passport expires on 2027-03-01."}
    attached = [
        {"file_name": "paste.txt", "extracted_content": "My dog is called Rex."},
        {"file_name": "a.pdf", "extracted_content": "Terms."},
    ]
    chat = claude_chat(
        of_human("", pasted, uuid="m1"), of_human("Sum this up", *attached, {"file_name": "b.png"}, uuid="m2")
    )
    drafts = list(claude(chat))
    texts = [pasted["extracted_content"], "Sum this up", "My dog is called Rex.", "Terms."]
    assert said(iter(drafts)) == texts
    assert [one.where for one in drafts if isinstance(one, LeftOut)] == ["k m2 b.png"]
    origins = [TARGET.events(draft)[0].payload.origin for draft in drafts if isinstance(draft, Draft)]  # type: ignore[index, union-attr]
    assert origins == ["import", "import", "import", "document"]  # nobody says what a file says


def node(name: str, parent: str | None, text: str, at: float, role: str = "user") -> dict[str, Any]:
    message = {
        "id": name,
        "author": {"role": role},
        "create_time": at,
        "content": {"content_type": "text", "parts": [text]},
    }
    return {"id": name, "parent": parent, "children": [], "message": message}


def chatgpt_chat(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "c", "create_time": AT, "mapping": {each["id"]: each for each in nodes}, **more}


def test_a_chat_that_does_not_say_its_latest_message_ends_with_the_one_written_last() -> None:
    chat = chatgpt_chat(
        node("u1", None, "first", AT),
        node("a1", "u1", "second", AT + 1, "assistant"),
        node("u2", "a1", "third, the latest", AT + 2),
        node("old", "u1", "a discarded answer", AT + 0.5, "assistant"),
    )
    assert said(chatgpt(chat)) == ["first", "second", "third, the latest"]


def test_messages_that_name_each_other_as_parents_come_in_once() -> None:
    circle = node("u1", "u2", "first", AT), node("u2", "u1", "second", AT + 1)
    assert said(chatgpt(chatgpt_chat(*circle, current_node="u2"))) == ["first", "second"]


def stored(group: str, column: str) -> list[Any]:
    """Of the memories of what was said."""
    sql = f"SELECT {column} FROM memory_nodes WHERE group_id = :g AND kind = 'session'"
    return sorted((row[column] for row in rows(sql, g=group)), key=str)


def test_what_was_edited_away_since_the_last_import_is_named_and_erased_if_that_is_wanted(
    client: Client,
) -> None:
    """F053: after another import of an edited conversation the old branch stayed, and nobody said so."""
    now = datetime.now(UTC)
    now = datetime.now(UTC)
    first = [node("u1", None, "I live in Porto.", AT), node("a1", "u1", "Noted.", AT + 1, "assistant")]
    faro = node("u2", None, "I live in Faro.", AT + 2), node("x", "u2", "Never brought in.", AT + 3)

    def bring(nodes: list[dict[str, Any]], current: str, **how: bool) -> Report:
        import_run = ImportRun(client, ImportTarget(source="chatgpt", group=client.group, now=now), **how)
        report = import_run.run(chatgpt(chatgpt_chat(*nodes, current_node=current)))
        client.wait_for(import_run.ids, 120)
        return report

    def texts() -> list[str]:
        return stored(client.group, "description")

    edited = [*first, *faro]
    assert bring(first, "a1").taken == 2
    kept = bring(edited, "u2")
    assert (kept.taken, kept.reasons) == (1, {"earlier branch": 2, "other branch": 1})
    assert "still there: --drop-earlier erases it" in kept.examples[0].detail
    assert len(texts()) == 3
    assert bring(edited, "u2", drop_earlier=True).reasons == {"earlier branch": 2, "other branch": 1}
    assert poll(lambda: len(texts()), lambda count: count == 1, 120)
    assert "Faro" in texts().pop()
    assert bring(edited, "u2").reasons == {"other branch": 3}


def test_an_import_that_is_repeated_with_a_user_is_that_users(client: Client) -> None:
    """F058: all was left out as "changed since", and stayed everybody's; a wrong name could not be corrected
    at all.
    """
    chat = claude_chat(of_human("My sister lives in Bergen.", created_at="2026-01-02T03:04:05Z"))
    now = datetime.now(UTC)

    def bring(user: str | None, **how: bool) -> tuple[int, int, int]:
        target = ImportTarget(source="claude", group=client.group, now=now, user=user)
        import_run = ImportRun(client, target, **how)
        report = import_run.run(claude(chat))
        client.wait_for(import_run.ids, 120)
        return report.taken, report.already, report.without_user

    def users() -> list[str | None]:
        return stored(client.group, "user_id")

    assert bring(None) == (1, 0, 0)
    assert bring("zoe") == (1, 0, 1)
    assert users() == [None, "zoe"]
    assert bring("zoe", drop_earlier=True) == (0, 1, 1)
    assert poll(users, lambda found: len(found) == 1, 120) == ["zoe"]
    assert bring("zoe") == (0, 1, 0)
    assert bring("ben") == (1, 0, 0)
    assert users() == ["ben", "zoe"]
    assert bring("zo\u0065\u0308") == (1, 0, 0)
    assert bring("zo\u00eb") == (0, 1, 0)


def test_half_a_surrogate_pair_costs_nothing_but_itself() -> None:
    half = node("u\ud800", None, "I own a \ud83d boat.\x00", AT)
    chat = chatgpt_chat(half, id="s\ud800", title="t\udfff")
    [draft] = chatgpt(chat)
    [event] = TARGET.events(draft)  # type: ignore[arg-type, misc]
    assert getattr(event.payload, "text", None) == "I own a  boat."
    report = Report(source="x")
    report.leave_out(LeftOut("s\ud800", "empty"))
    assert report.model_dump_json()


def open_webui_chat() -> dict[str, Any]:
    picture = [{"type": "text", "text": "Noted."}, {"type": "image_url", "image_url": {}}]
    messages = {
        name: {
            "id": name,
            "parentId": parent,
            "childrenIds": [],
            "role": role,
            "content": content,
            "timestamp": at,
        }
        for at, (name, parent, role, content) in enumerate(
            [
                ("a", None, "user", "I live in Porto."),
                ("b", "a", "assistant", "A first answer."),
                ("c", "a", "assistant", picture),
                ("d", "c", "user", "我对花生过敏。"),
            ],
            1_700_000_000,
        )
    }
    chat = {"history": {"messages": messages, "currentId": "d"}}
    return {"id": "ow1", "user_id": "mia", "title": "Trip", "chat": chat, "created_at": 1_700_000_000}


def test_chats_of_open_webui_are_brought_in() -> None:
    drafts = list(open_webui(open_webui_chat()))
    assert said(iter(drafts)) == ["I live in Porto.", "Noted.", "我对花生过敏。"]
    [first, *_] = [draft for draft in drafts if isinstance(draft, Draft)]
    assert (first.session, first.user, first.at) == (
        "ow1",
        "mia",
        datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    )
    assert [(one.where, one.reason) for one in drafts if isinstance(one, LeftOut)] == [
        ("ow1 b", "other branch")
    ]


#: The form that somebody named, a file of another one, and what is told.
MISTAKEN: list[tuple[str, Any, str]] = [
    ("chatgpt", [open_webui_chat()], "jiyi import open-webui"),
    ("chatgpt", [claude_chat()], "jiyi import claude"),
    ("claude", {"id": "c", "mapping": {"u": node("u", None, "hi", AT)}}, "jiyi import chatgpt"),
    ("open-webui", [{"id": "1", "memory": "Likes tea"}], "jiyi import mem0"),
    ("chatgpt", [{"header": "Gemini Apps", "title": "Hello"}], "known forms: chatgpt, claude, open-webui"),
    ("claude", {"anything": "else"}, "known forms"),
]


def test_a_file_of_another_program_is_refused_by_the_name_of_its_form(server: Vendor, tmp_path: Path) -> None:
    for source, content, words in MISTAKEN:
        (tmp_path / "x.json").write_text(json.dumps(content))
        command = ["import", source, str(tmp_path / "x.json"), "--no-wait"]
        done = CliRunner(env={"COLUMNS": "1000"}).invoke(app, command)
        assert done.exit_code == 2, done.output
        assert words in " ".join(done.stderr.replace("│", " ").split())
    assert server.requests == []


def test_secrets_in_what_is_brought_in_are_masked() -> None:
    assert said(claude(claude_chat(of_human("My password is hunter2secret")))) == ["My password is […]"]
