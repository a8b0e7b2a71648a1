"""jiyi.cli with a running service."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from jiyi.cli.app import app
from tests.integration.client.test_service import publish_raw, until

ROOT = Path(__file__).resolve().parents[3]
DIARY = ROOT / "examples" / "diary" / "events.jsonl"
#: What an answer about a broker that is down may take, with Python's start; the ordinary case is about two
#: seconds.
FEW_SECONDS = 60.0


@pytest.fixture
def jiyi(service):
    """Runs a command in the test's group; its standard output."""

    def run(*arguments, code=0, **options):
        result = CliRunner().invoke(app, ["--group", service, *map(str, arguments)], **options)
        assert result.exit_code == code, result.output
        return result.stdout

    return run


@pytest.fixture
def ask(jiyi):
    """Runs a command with ``--json``; the document."""

    def run(*arguments, **options):
        return json.loads(jiyi(*arguments, "--json", **options))

    return run


def comparable(nodes):
    """Nodes without what differs between groups: ids, what rests on them, and when they were stored."""
    differing = ("node_id", "filling", "last_accessed", "access_count", "stored_at")
    return [{name: value for name, value in node.items() if name not in differing} for node in nodes]


def test_jobs_and_the_archive(jiyi, ask, service):
    def job(name):
        return next(row for row in ask("jobs", "list")["rows"] if row["job"] == name)

    def found(*options):
        return ask("retrieve", "klaus", "naps", *options)["groups"][0]["retrieved_nodes"]

    assert job("archive")["schedule"] == "daily at 03:00 UTC"
    until(lambda: (job("reconcile")["last"] or {}).get("state") == "done")
    assert "reconcile" in jiyi("jobs", "list")
    ask("observe", "klaus", "Klaus napped", "--occurred-at", "2020-01-01")
    ask("observe", "klaus", "Klaus thought of naps", "--node-type", "thought", "--occurred-at", "2020-01-01")
    ask("observe", "klaus", "Klaus wakes up")
    assert ask("jobs", "run", "expire_thoughts")["state"] == "done"
    archived = ("memory", "list", "klaus", "--archived", "only")
    (thought,) = ask(*archived)["rows"]
    assert (thought["description"], thought["archived_reason"]) == ("Klaus thought of naps", "expired")
    assert thought["node_id"] in jiyi(*archived)
    assert {node["description"] for node in found("--no-touch")} == {"Klaus napped", "Klaus wakes up"}
    assert len(found("--no-touch", "--include-archived", "--include-expired")) == 3
    assert ask("archive", "restore", thought["node_id"])["count"] == 1
    assert [node["expires_at"] for node in found() if node["type"] == "thought"] == [None]
    assert ask("jobs", "run", "archive", "--no-whole-service")["summary"]["archived"] == 0
    assert "nothing here" in CliRunner().invoke(app, ["-g", service, *archived]).stderr
    unknown = CliRunner().invoke(app, ["jobs", "run", "sleep"])
    assert (unknown.exit_code, "no job 'sleep'" in unknown.stderr) == (1, True)


def test_what_was_observed_is_found_listed_counted_and_copied(jiyi, ask, service, tmp_path):
    def observe(*words, **options):
        return ask("observe", "klaus", *words, **options)["event_ids"]

    def listed(*options):
        return ask("memory", "list", "klaus", *options)["rows"]

    reads = "Klaus reads a book on gentrification"
    seen = observe(reads, "--poignancy", 4, "--keywords", "book")
    more = observe("-", input="克劳斯今天去了图书馆\nKlaus drinks tea\n")
    as_thought = ("--node-type", "thought", "--evidence", seen[0], "--keywords", "book")
    thought = observe("Klaus likes books", *as_thought)
    answer = ask("retrieve", "klaus", reads, "图书馆", "-k", 2)
    assert [group["status"] for group in answer["groups"]] == ["ok", "ok"]
    assert answer["groups"][0]["retrieved_nodes"][0]["node_id"] == seen[0]

    def appraised():
        found = listed()
        return all(node["poignancy"] is not None for node in found) and found

    nodes = until(appraised)  # what nobody said the importance of has one a moment after it is retrievable
    assert [node["node_id"] for node in nodes] == [*thought, *reversed(more), *seen]
    assert [node["depth"] for node in nodes] == [1, 0, 0, 0]
    assert listed("--origins", "tool", "--origins", "document") == []
    assert len(listed("--origins", "user", "--min-trust", 0.8)) == 4
    page = ask("memory", "list", "klaus", "--limit", 3)
    assert [node["node_id"] for node in listed("--cursor", page["next"])] == seen
    keywords = lambda: ask("memory", "keywords", "klaus")["rows"]
    strengths = until(lambda: [row for row in keywords() if row["keyword"] == "book"])
    assert {row["memory_type"] for row in strengths} <= {"event", "thought"}
    related = ask("memory", "related", "klaus", "--object", "Book")
    assert [node["node_id"] for node in related["events"]] == seen
    assert ask("agents", "list")["rows"][0]["node_count"] == 4
    assert ask("stats", "show")["counts"]["nodes"] == 4

    jiyi("agents", "configure", "klaus", "--mode", "elapsed", "--recency-decay", 0.9)
    assert ask("retrieve", "klaus", "tea")["groups"][0]["debug"]["mode"] == "elapsed"

    file = tmp_path / "events.jsonl"
    assert ask("export", "jsonl", file, "--with-vectors")["exported"] == 5
    assert jiyi("export", "jsonl").count("\n") == 5
    copy = f"{service}-copy"
    for _ in range(2):  # a second import changes nothing
        assert ask("import", "jsonl", file, "--into-group", copy)["published"] == 5
        copied = listed("--group", copy)
        assert comparable(copied) == comparable(nodes)
    assert copied[0]["filling"] == [copied[-1]["node_id"]]


def test_the_diary_comes_in_and_reads_well(jiyi, ask, service):
    assert ask("import", "jsonl", DIARY)["published"] == 330
    for columns in ("80", "120"):
        shown = jiyi("retrieve", "林岚", "房租", "-k", 3, env={"COLUMNS": columns})
        assert "candidates" in shown
        assert "░ recency" in shown
        assert "Tomas" in jiyi("agents", "list", env={"COLUMNS": columns})
        assert "description" in jiyi("memory", "list", "林岚", "--types", "chat", env={"COLUMNS": columns})
        assert "dead_letters" in jiyi("stats", "show", env={"COLUMNS": columns})
    listed = CliRunner().invoke(app, ["memory", "keywords", "Tomas", "--limit", "1", "--group", service])
    following = re.search(r"^more: jiyi (memory keywords Tomas .*)$", listed.stderr, re.MULTILINE)
    assert following is not None
    assert jiyi(*shlex.split(following[1])) != listed.stdout


def test_refused_events_are_listed_shown_replayed_and_discarded(jiyi, ask, service):
    event_id = str(uuid4())
    event = {"event_id": event_id, "type": "memory.observed", "group_id": service, "agent_id": "a"}
    publish_raw(json.dumps({**event, "payload": {"description": "x", "poignancy": 99}}))

    def letters():
        return [row for row in ask("dead_letters", "list")["rows"] if row["subject_id"] == event_id]

    def resolve(action, letter_id, *options, **more):
        return ask("dead_letters", "resolve", action, letter_id, *options, **more)

    def state(letter_id):
        return ask("dead_letters", "get", letter_id)["state"]

    own = until(letters)[0]["letter_id"]
    shown = ask("dead_letters", "get", own)
    assert "poignancy" in shown["reason"]
    assert event_id in shown["body"]
    assert '"poignancy": 99' in jiyi("dead_letters", "get", own)
    assert own in jiyi("dead_letters", "list", "--kind", "intake")
    assert resolve("replay", own) == {"resolved": 1, "refused_again": 1}
    again = until(letters)[0]["letter_id"]
    assert again != own
    assert resolve("discard", again, "--yes") == {"resolved": 1, "refused_again": 0}
    assert [state(own), state(again)] == ["replayed", "discarded"]
    assert letters() == []
    assert resolve("discard", again, "--yes", code=1)["error"]["code"] == "not_found"


def test_15_a_memory_of_the_originals_own_code_comes_in_and_what_is_left_out_is_told(ask, tmp_path):
    triple = {"subject": "Ann", "predicate": "is", "object": "in"}
    saved = {"type": "event", "created": "2023-02-13 07:15:00", "expiration": None, **triple}
    saved |= {"description": "Ann is in", "embedding_key": "Ann is in", "poignancy": 3, "filling": []}
    nodes = {"node_2": {**saved, "keywords": ["ann", ""]}, "node_1": {**saved, "keywords": ["ann"]}}
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    (tmp_path / "scratch.json").write_text(json.dumps({"name": "Ann", "recency_w": -1}))
    done = ask("import", "stanford", tmp_path)
    assert (done["published"], done["skipped"], done["left_out"]) == (3, 0, ["node_2: an empty keyword"])
    assert len(ask("memory", "list", "Ann")["rows"]) == 2
    assert ask("import", "stanford", tmp_path)["published"] == 3  # again: nothing new, nothing refused


def test_16_a_line_whose_id_is_another_events_is_told_and_fails(jiyi, ask, tmp_path):
    file, event_id = tmp_path / "events.jsonl", str(uuid4())
    for text, code in (("the first", 0), ("the first", 0), ("another", 1)):
        file.write_text(json.dumps({"event_id": event_id, "agent_id": "klaus", "description": text}) + "\n")
        done = ask("import", "jsonl", file, code=code)
    assert done["error"]["code"] == "id_reused"
    assert event_id in done["error"]["message"]
    assert [row["description"] for row in ask("memory", "list", "klaus")["rows"]] == ["the first"]
    until(lambda: [row for row in ask("dead_letters", "list")["rows"] if row["subject_id"] == event_id])


def test_what_is_not_there_is_said(jiyi, ask):
    assert ask("memory", "list", "nobody", code=1)["error"]["code"] == "not_found"
    assert "unknown_agent: no group" in jiyi("retrieve", "nobody", "x", code=1)
    assert jiyi("export", "jsonl", "--agent", "nobody") == ""
    assert ask("agents", "list")["rows"] == []


def test_a_closed_pipe_ends_an_export_silently(jiyi, service, tmp_path):
    file = tmp_path / "many.jsonl"
    file.write_text(
        "".join(json.dumps({"agent_id": "a", "description": f"{n} {'x' * 2_000}"}) + "\n" for n in range(200))
    )
    jiyi("import", "jsonl", file)
    command = f"{sys.executable} -m jiyi export jsonl -g {service} | head -n 1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize("command", [["observe", "a", "x"], ["retrieve", "a", "x"]])
def test_a_broker_that_is_down_is_told_in_one_line(command):
    address = "redis://127.0.0.1:1/0"
    environment = {**os.environ, "JIYI_BROKER_URL": address, "JIYI_REDIS_URL": address}
    words = [sys.executable, "-m", "jiyi", *command, "--json"]
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=FEW_SECONDS
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert re.match(r"jiyi: the broker( or Valkey)? cannot be reached \(", done.stderr)
    assert json.loads(done.stdout)["error"]["code"] == "broker_unavailable"
