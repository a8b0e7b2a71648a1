"""Memories from other services come in whole, once, whatever happens meanwhile; and go out and in again as
they were.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from flask import Flask, request
from typer.testing import CliRunner

from jiyi import Client
from jiyi.cli.app import app
from jiyi.imports.import_run import ImportRun
from tests.integration.waiting import until

ROOT = Path(__file__).resolve().parents[3]
KeyMaker = Callable[..., str]
#: Ways in whose files hold one memory each: how to write so many of them.
TEXT = "Mia noted item number {} of her list"


def conversation(number: int) -> dict[str, Any]:
    return {
        "uuid": f"c{number}",
        "chat_messages": [{"uuid": f"m{number}", "sender": "human", "text": TEXT.format(number)}],
    }


def tree(number: int) -> dict[str, Any]:
    message = {
        "id": f"m{number}",
        "author": {"role": "user"},
        "content": {"content_type": "text", "parts": [TEXT.format(number)]},
    }
    return {"id": f"c{number}", "mapping": {"n": {"parent": None, "message": message}}, "current_node": "n"}


def session(number: int) -> dict[str, Any]:
    return {"session_id": f"s{number}", "facts": [{"uuid": f"f{number}", "fact": TEXT.format(number)}]}


EACH: dict[str, Callable[[int], dict[str, Any]]] = {
    "chatgpt": tree,
    "claude": conversation,
    "mem0": lambda number: {"id": f"m{number}", "memory": TEXT.format(number), "user_id": "mia"},
    "zep": session,
    "langmem": lambda number: {
        "namespace": ["m"],
        "key": str(number),
        "value": {"content": TEXT.format(number)},
    },
    "jsonl": lambda number: {"agent_id": "assistant", "description": TEXT.format(number)},
}


def written(source: str, count: int, folder: Path) -> Path:
    """A file, or a folder, of so many memories as the source exports them."""
    numbers = range(count)
    if source == "openclaw":
        (folder / "openclaw").mkdir(exist_ok=True)
        (folder / "openclaw" / "MEMORY.md").write_text(
            "".join(f"- {TEXT.format(number)}\n" for number in numbers)
        )
        return folder / "openclaw"
    if source == "letta":
        passages = [{"id": f"p{number}", "text": TEXT.format(number)} for number in numbers]
        content: Any = {
            "agents": [{"name": "assistant", "messages": [], "archival_passages": passages}],
            "blocks": [],
        }
    elif source == "jsonl":
        path = folder / "memories.jsonl"
        path.write_text("".join(json.dumps(EACH[source](number)) + "\n" for number in numbers))
        return path
    else:
        content = [EACH[source](number) for number in numbers]
    path = folder / f"{source}.json"
    path.write_text(json.dumps(content))
    if source in ("chatgpt", "claude"):
        with zipfile.ZipFile(folder / f"{source}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(path, "conversations.json")
        return folder / f"{source}.zip"
    return path


SOURCES = [*EACH, "letta", "openclaw"]


def bring(group: str, source: str, path: object, *options: object, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(
        app, ["--group", group, "import", source, str(path), "--json", *map(str, options)]
    )
    assert result.exit_code == code, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def stored(group: str) -> list[str]:
    with Client(group) as client:
        kinds = ["memory", "session"]
        return [memory.description for memory in client.list(None, kinds=kinds, page_size=500)]  # type: ignore[arg-type]


#: A zip, a file and lines; that ids follow from a source's own is shown of each in ``unit/imports``.
QUICK = ("claude", "mem0", "jsonl")


@pytest.mark.parametrize(
    "source", [pytest.param(one, marks=() if one in QUICK else pytest.mark.long) for one in SOURCES]
)
def test_an_import_that_is_killed_and_run_again_loses_nothing_and_has_no_twin(
    source: str, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, count = written(source, 60, tmp_path), 60
    monkeypatch.setattr("jiyi.imports.import_run.STATES_A_CALL", 20)
    if source != "jsonl":
        publish, batches = ImportRun.publish, iter([True, True, False])

        def interrupted(self: ImportRun, batch: Any) -> None:
            if not next(batches):
                raise KeyboardInterrupt
            publish(self, batch)

        with monkeypatch.context() as patch:
            patch.setattr(ImportRun, "publish", interrupted)
            report = bring(service, source, path, "--no-wait", code=130)
        assert (report["taken"], report["complete"], report["problem"]) == (40, False, "interrupted")
        until(lambda: len(stored(service)) == 40)
        report = bring(service, source, path)
        assert (report["taken"], report["already"]) == (20, 40)
        assert (report["left_out"], report["complete"]) == (0, True)
        assert bring(service, source, path)["already"] == 60
    else:
        for _ in range(2):
            assert bring(service, source, path)["published"] == 60
    until(lambda: len(stored(service)) >= count)
    texts = stored(service)
    assert sorted(texts) == sorted(TEXT.format(number) for number in range(count))


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES)
def test_ten_thousand_memories_killed_in_the_middle_and_run_again(
    source: str, service: str, unlimited_web: int, api_key: KeyMaker, tmp_path: Path
) -> None:
    path, count = written(source, 10_000, tmp_path), 10_000
    environment = {
        **os.environ,
        "JIYI_URL": f"http://127.0.0.1:{unlimited_web}",
        "JIYI_KEY": api_key(service, "publish", "read"),
    }
    command = [sys.executable, "-m", "jiyi", "import", source, str(path), "--no-wait", "--json"]
    first = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
    until(lambda: len(stored(service)) >= 1_000 or first.poll() is not None)
    first.send_signal(signal.SIGKILL)
    first.wait(60)
    assert len(stored(service)) < count, "it was too fast to be killed in the middle"
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True)
    report = json.loads(done.stdout)
    if source != "jsonl":
        assert report["taken"] + report["already"] == count
        assert report["already"] >= 1_000
    texts = stored(service)
    assert (len(texts), len(set(texts))) == (count, count)


def test_what_was_told_is_found_with_its_time_user_and_session_and_a_check_compares_nothing_with_itself(
    service: str, tmp_path: Path
) -> None:
    path, questions = tmp_path / "conversations.json", tmp_path / "questions.jsonl"
    said = {"uuid": "m1", "sender": "human", "text": "My sister Ingrid lives in Bergen"}
    said["created_at"] = "2024-05-06T07:08:09Z"

    def brought(*messages: dict[str, str], **more: str) -> dict[str, Any]:
        path.write_text(json.dumps([{"uuid": "c1", "chat_messages": messages, **more}]))
        return bring(service, "claude", path, "--user", "mia", "--check", questions)

    asked = [("Where does Ingrid live?", ["bergen", "卑尔根"]), ("What is eaten?", "fårikål")]
    lines = [json.dumps({"question": question, "expected": expected}) for question, expected in asked]
    questions.write_text("\n".join(lines))
    report = brought(said, {"uuid": "m2", "sender": "human", "text": " "}, name="Family")
    assert (report["taken"], report["reasons"]) == (1, {"empty": 1})
    assert (report["retrievable"], report["agents"]) == (True, ["assistant"])
    counted = {"questions": 2, "among_first": 10, "ours": 0.5, "theirs": None}
    assert report["check"] == {**counted, "missed": ["What is eaten?"]}
    with Client(service) as client:
        (memory,) = client.list("assistant", kinds=["session"], user_id="mia")
        assert (memory.session_id, memory.user_id, memory.created_at.year) == ("c1", "mia", 2024)
        assert memory.origin == "import"
        assert list(client.list("assistant", kinds=["session"], user_id="leo")) == []
    report = brought({**said, "text": "My sister Ingrid lives in Oslo"})
    assert (report["taken"], report["reasons"]) == (0, {"changed since": 1})


def test_a_file_that_ends_badly_still_has_a_report(service: str, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    for content, problem in (
        (b"\x00\x01binary", "binary"),
        (b'[{"uuid": "c", "chat_messages": []}, {"uu', "no whole JSON"),
        (b"", "is empty"),
    ):
        path.write_bytes(content)
        report = bring(service, "claude", path, code=1)
        assert problem in report["problem"]
        assert report["complete"] is False
        result = CliRunner().invoke(app, ["--group", service, "import", "claude", str(path)])
        assert problem in result.stderr
        assert "Traceback" not in result.stderr
    assert CliRunner().invoke(app, ["import", "claude", str(tmp_path / "gone")]).exit_code == 1


BEES = "Mia keeps bees behind her house"


def told_as(number: int) -> str:
    return BEES if number == 7 else TEXT.format(number)


def recorded(name: str) -> Flask:
    """What a service answers, as its API is documented."""
    server = Flask(name)
    rows = [{"id": f"m{number}", "memory": told_as(number), "user_id": "mia"} for number in range(150)]
    at = {"created_at": "2026-01-01T00:00:01Z"}
    said = [{"uuid": f"m{n}", "role_type": "user", "content": told_as(n), **at} for n in range(130)]

    @server.before_request
    def knows_the_key() -> Any:
        known = request.headers.get("Authorization") in ("Token s3cret", "Api-Key s3cret")
        return None if known else ({"detail": "no"}, 401)

    def page() -> Any:
        assert request.get_json() == {"filters": {"user_id": "mia"}}
        number, size = int(request.args["page"]), int(request.args["page_size"])
        return {"count": len(rows), "results": rows[(number - 1) * size : number * size]}

    def messages(_name: str) -> Any:
        first = int(request.args["cursor"])
        return {"messages": said[first : first + int(request.args["limit"])], "total_count": len(said)}

    entities = [{"type": "user", "name": "mia"}, {"type": "agent", "name": "x"}]
    sessions = {"sessions": [{"session_id": "s/1", "user_id": "mia", **at}], "total_count": 1}
    facts = {"facts": [{"uuid": "f", "fact": "Mia keeps a list"}]}
    found = [row for row in rows if row["memory"] == BEES]
    routes: dict[str, dict[str, Callable[..., Any]]] = {
        "mem0": {
            "GET /v1/entities/": lambda: {"results": entities},
            "POST /v3/memories/": page,
            "POST /v3/memories/search/": lambda: {"results": found},
        },
        "zep": {
            "GET /api/v2/sessions-ordered": lambda: sessions,
            "GET /api/v2/sessions/<path:_name>/facts": lambda _name: facts,
            "GET /api/v2/sessions/<path:_name>/messages": messages,
            "POST /api/v2/sessions/search": lambda: {"results": [{"message": said[7]}]},
        },
    }
    for route, answer in routes[name].items():
        method, path = route.split(" ")
        server.add_url_rule(path, route, answer, methods=[method])
    return server


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 – its name there
        """Nothing."""


@pytest.fixture
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with make_server("127.0.0.1", 0, recorded(request.param), handler_class=Quiet) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(30)


@pytest.mark.parametrize(
    ("address", "source", "count"), [("mem0", "mem0", 150), ("zep", "zep", 131)], indirect=["address"]
)
def test_a_running_service_gives_all_pages_and_is_asked_the_same_questions(
    address: str, source: str, count: int, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"question": "Who keeps bees?", "expected": "BEES  behind", "user_id": "mia"}\n')
    assert "401" in bring(service, source, address, code=1)["problem"]
    monkeypatch.setenv("JIYI_SOURCE_KEY", "s3cret")
    report = bring(service, source, address, "--check", questions)
    assert (report["taken"], report["left_out"]) == (count, 0)
    assert (report["check"]["theirs"], report["check"]["ours"]) == (1.0, 1.0)
    assert "s3cret" not in json.dumps(report)
    assert bring(service, source, address)["already"] == count
    assert "cannot be reached" in bring(service, source, "http://127.0.0.1:9", code=1)["problem"]


def lines(path: Path, group: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        assert row.pop("group_id") == group
    return sorted(rows, key=lambda row: row["event_id"])


def test_an_export_of_all_into_an_empty_group_is_exported_the_same(service: str, tmp_path: Path) -> None:
    copy, facts = f"{service}-copy", ["preference", "knowledge"]
    with Client(service) as client:
        client.observe("klaus", "Klaus reads a book", importance=4, user_id="mia")
        earlier = {"occurred_at": "2026-01-01T00:00:00Z", "provenance": {"from": "diary"}}
        client.observe("klaus", "克劳斯在喝茶", keywords=["茶"], **earlier, wait=True)  # type: ignore[arg-type]
        client.configure("klaus", mode="elapsed", wait=True)
        said = "I am allergic to peanuts and I live in Bergen."
        client.add_turn("klaus", "user", said, "s1", user_id="mia", wait=True)
        client.end_session("klaus", "s1", user_id="mia")
        kept = lambda: [memory.description for memory in client.list("klaus", kinds=facts)]  # type: ignore[arg-type]
        until(lambda: any("peanut" in description for description in kept()))
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for name, file in ((service, first), (copy, second)):
        if name == copy:
            bring(copy, "jsonl", first, "--keep-ids")
        result = CliRunner().invoke(app, ["--group", name, "export", "jsonl", str(file), "--all", "--json"])
        assert result.exit_code == 0, result.output
    exported, again = lines(first, service), lines(second, copy)
    types = {"turn.recorded", "agent.configured", "memory.observed", "session.ended"}
    assert {row["type"] for row in exported} == types
    assert any(row["payload"].get("kind") in facts for row in exported), "what was taken from what was said"
    assert again == exported
