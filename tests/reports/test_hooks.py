"""Hooks and plug-ins: what was said arrives whole, once, under its own key, and without secrets."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from jiyi.chat.secrets import masked
from jiyi.cli import hook
from jiyi.cli.app import app
from jiyi.integrations import plug_ins, turns
from jiyi.polling import poll
from jiyi.protocol import event_bodies
from jiyi.protocol import events as wire
from jiyi.protocol.event_bodies import content, content_of, digest
from jiyi.protocol.event_requests import EventsBody
from jiyi.protocol.experiences import TellExperience
from jiyi.protocol.parts import parts_of
from jiyi.protocol.recall import UpdateMemory
from jiyi.protocol.wire.signatures import new_key
from jiyi.settings import get_settings

SECRETS = (
    "My password is hunter2secret and my key is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD, card 4111 1111"
    " 1111 1111"
)
MASKED = "My password is […] and my key is […], card […]"
KEY = str(new_key())
AT = "2026-11-28T10:00:00.000Z"


class Service:
    """Takes events as the service does: all of a request, or none; each id once."""

    def __init__(self) -> None:
        self.away, self.revoked = False, ""
        self.stored: dict[str, dict[str, str]] = {}

    def post(self, config: Mapping[str, Any], path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if self.away:
            raise ConnectionRefusedError
        if config["key"] == self.revoked:
            raise ValueError(401, b"revoked")
        if path != "/events":
            return {"context": "", "stable": "known"}
        try:
            events = EventsBody.model_validate_json(json.dumps(body)).as_events("g")
        except ValidationError as error:
            raise ValueError(422, str(error)) from None
        of_key = self.stored.setdefault(config["key"], {})
        of_key.update({str(event.event_id): event.payload.text for event in events})  # type: ignore[union-attr]
        return {}

    def texts(self, key: str = "k") -> list[str]:
        return list(self.stored.get(key, {}).values())


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    service = Service()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for module in (hook, plug_ins):
        monkeypatch.setattr(module, "post", service.post)
    monkeypatch.setattr(hook, "PUBLISH_SECONDS", 60.0)  # a busy machine
    connect("k")
    return service


def connect(key: str) -> None:
    hook.config_path().parent.mkdir(exist_ok=True)
    hook.config_path().write_text(json.dumps({"url": "http://127.0.0.1:9", "key": key, "agent": "coder"}))


def run(event: str, session: str = "s", **given: Any) -> str:
    printed = io.StringIO()
    assert hook.main([event], io.StringIO(json.dumps({"session_id": session, **given})), printed) == 0
    return printed.getvalue()


def line(number: int, text: object, **more: Any) -> str:
    message = {"role": "user", "content": text}
    return json.dumps({"type": "user", "uuid": f"u{number}", "timestamp": AT, "message": message, **more})


def statements(count: int) -> tuple[list[str], list[str]]:
    """The lines of so many turns, and what they say."""
    said = [f"Statement number {number}." for number in range(count)]
    return [line(number, text) for number, text in enumerate(said)], said


Write = Callable[..., str]


@pytest.fixture
def transcript(tmp_path: Path) -> Write:
    def write(*lines: str) -> str:
        path = tmp_path / "t.jsonl"
        path.write_text("".join(f"{each}\n" for each in lines))
        return str(path)

    return write


BAD = {
    "NUL": (line(2, "the output was a\x00b here"), "the output was ab here"),
    "half an emoji": (line(2, "broken \ud83d emoji"), "broken  emoji"),
    "no time": (line(2, "later", timestamp=""), "later"),
    "yesterday": (line(2, "later", timestamp="yesterday"), "later"),
    "no calendar": (line(2, "later", timestamp="0001-01-01T00:00:00Z"), None),
    "no message": (line(2, "", message=None), None),
    "message is a text": (line(2, "", message="hello there"), "hello there"),
    "no uuid": (line(2, "no uuid here", uuid=None), "no uuid here"),
    "no text": (line(2, [{"type": "text", "text": None}]), None),
    "deep": ("[" * 200_000, None),
    "no JSON": ("cut line}", None),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_line_that_is_wrong_costs_no_other_turn(bad: str, memory: Service, transcript: Write) -> None:
    wrong, kept = BAD[bad]
    path = transcript(line(1, "I live in Braga."), wrong, line(3, "My sister is Joana."))
    run("Stop", transcript_path=path)
    assert memory.texts() == ["I live in Braga.", *([kept] if kept else []), "My sister is Joana."]


def test_a_session_of_130_turns_that_is_told_at_once_is_kept_whole_and_once(
    memory: Service, transcript: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that runs out of time goes on at the next one."""
    lines, said = statements(130)
    path = transcript(*lines)
    with monkeypatch.context() as patch:
        patch.setattr(hook, "PUBLISH_SECONDS", 0.0)
        run("Stop", transcript_path=path)
    assert memory.texts() == []
    for event in ("PreCompact", "Stop"):
        run(event, transcript_path=path)
        assert memory.texts() == said


def test_what_was_said_while_the_service_was_away_is_made_up_at_the_next_session(
    memory: Service, transcript: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, said = statements(120)
    memory.away = True
    run("SessionStart")
    run("Stop", transcript_path=transcript(*lines))
    assert memory.texts() == []
    memory.away = False
    assert "known" in run("SessionStart", "another")
    assert memory.texts() == said
    assert capsys.readouterr().err == ""


def test_a_line_that_is_being_written_is_told_once_it_is_whole(memory: Service, tmp_path: Path) -> None:
    path, whole = tmp_path / "t.jsonl", line(1, "I live in Braga.")
    for text in (whole[:40], whole, f"{whole}\n", f"{whole}\n{line(2, 'And you?')}"):
        path.write_text(text)
        run("Stop", transcript_path=str(path))
    assert memory.texts() == ["I live in Braga.", "And you?"]


def test_what_a_session_said_under_one_key_is_never_told_under_another(
    memory: Service, transcript: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """What waited is left out with a word: the other key may be of another group."""
    before = [line(1, "A: my salary is 5,400")]
    memory.away = True
    run("Stop", transcript_path=transcript(*before))
    connect("other")
    memory.away = False
    run("SessionStart", "another")
    assert "another key" in capsys.readouterr().err
    run("Stop", transcript_path=transcript(*before, line(2, "B: hello")))
    assert memory.texts("other") == ["B: hello"]
    assert memory.texts("k") == []


def test_a_transcript_that_is_gone_is_forgotten(memory: Service, transcript: Write) -> None:
    path = transcript(line(1, "hello"))
    run("Stop", transcript_path=path)
    [noted] = hook.places().iterdir()
    noted.with_name("broken.json").write_text("{")
    Path(path).unlink()
    run("SessionStart", "another")
    assert list(hook.places().iterdir()) == []
    assert memory.texts() == ["hello"]


SAID, SAW = {"role": "user", "text": SECRETS}, {"description": SECRETS, "embedding_key": SECRETS}
TURN = {"agent_id": "a", "session_id": "s", "type": "turn.recorded", "payload": SAID}
SEEN = {"agent_id": "a", "type": "memory.observed", "payload": SAW}


def test_secrets_are_masked_at_every_door() -> None:
    """Also for programs that mask nothing: hooks, plug-ins, whatever posts events or publishes them over the
    broker.
    """

    def said(events: Iterable[wire.Event]) -> list[str]:
        names = "text", "description"
        return [str(next(filter(None, (getattr(one.payload, name, "") for name in names)))) for one in events]

    bodies = [TURN, SEEN, {"agent_id": "a", "description": SECRETS}]
    posted = EventsBody.model_validate({"events": bodies}).as_events("g")
    assert said(posted) == [MASKED] * 3
    assert "hunter2secret" not in str(posted)
    ids = {"event_id": "0193a3f0-0000-7000-8000-000000000001", "group_id": "g"}
    decoded = event_bodies.decode(json.dumps({"events": [{**TURN, **ids}, {**SEEN, **ids}]}).encode())
    assert said(decoded.events) == [MASKED] * 2
    key, card = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD", "4111111111111111"
    corrected = UpdateMemory(id=uuid4(), description=SECRETS, object=key, keywords=[card])
    assert (corrected.description, corrected.object, corrected.keywords) == (MASKED, "[…]", ["[…]"])
    pain = {"pain_pattern": SECRETS, "context": SECRETS, "solution_steps": [SECRETS], "outcome": "success"}
    learned = TellExperience.model_validate({"agent_id": "a", **pain})
    assert (learned.pain_pattern, learned.context, learned.solution_steps) == (MASKED, MASKED, [MASKED])


def test_what_an_earlier_version_stored_in_clear_may_be_sent_again() -> None:
    """A hook or an import that sends the same turn after an update is not refused as another one."""
    event = wire.build({**TURN, "group_id": "g"})
    assert digest(content_of(event)) == digest(content("turn.recorded", "a", "s", SAID))


def test_a_secret_that_lies_across_two_parts_of_a_long_text_is_masked() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA\n" * 400 + "-----END RSA PRIVATE KEY-----"
    text = "It began well. " * 1_200 + key + " And so it ended." * 1_200
    parts = parts_of({**TURN, "payload": {"role": "user", "text": text}})
    assert len(parts) > 1
    assert "MIIEpAIBAAKCAQEA" not in json.dumps(parts)


@pytest.mark.parametrize(
    "harmless",
    [
        "skyscraper-construction and skateboarding-lessons are sk-based-approaches-for-everybody",
        "We read jiyi_memory_nodes_table with hf_hub_download_function.",
        "It took from 1764400000123456789 to 1764400000123456797 ns.",
    ],
)
def test_words_that_begin_like_keys_and_numbers_of_machines_stay(harmless: str) -> None:
    assert masked(harmless) == harmless
    assert masked(MASKED) == MASKED


class Plugged(plug_ins.PlugInMemory):
    """A plug-in's memory whose configuration can be written anew."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {"url": "http://127.0.0.1:9", "key": "A", "agent": "helper"}
        super().__init__(lambda: self.config)

    def say(self, text: str) -> None:
        self.enqueue("turn.recorded", {"role": "user", "text": text}, session_id="s")


@pytest.fixture
def plugged(memory: Service) -> Iterator[Plugged]:
    made = Plugged()
    yield made
    memory.away = False
    made.end()


def test_what_waits_is_published_under_the_key_that_it_was_told_under(
    plugged: Plugged, memory: Service
) -> None:
    """After `jiyi connect` with the key of another group, that group is not told what was said before."""
    memory.away = True
    plugged.say("A: my salary is 5,400")
    memory.away = False
    plugged.config = {**plugged.config, "key": "B"}
    plugged.say("B: hello")
    poll(lambda: memory.texts("B"), bool, 30)
    assert (memory.texts("A"), memory.texts("B")) in (
        (["A: my salary is 5,400"], ["B: hello"]),
        ([], ["B: hello"]),
    )
    poll(lambda: len(plugged.waiting), lambda waiting: not waiting, 30, str)


def test_what_cannot_be_published_under_its_key_any_more_is_dropped_with_a_word(
    plugged: Plugged, memory: Service, caplog: pytest.LogCaptureFixture
) -> None:
    memory.revoked, memory.away = "A", True
    plugged.say("A: my salary is 5,400")
    plugged.config = {**plugged.config, "key": "B"}
    memory.away = False
    plugged.say("B: hello")
    poll(lambda: memory.texts("B"), bool, 30)
    assert memory.texts("A") == []
    assert memory.texts("B") == ["B: hello"]
    assert "a key that is no longer set" in caplog.text


def test_plug_ins_and_adapters_leave_out_what_cannot_be_stored_of_a_text_and_keep_the_rest(
    plugged: Plugged, memory: Service
) -> None:
    plugged.say("I live \x00in Braga \ud83d.")
    assert poll(lambda: memory.texts("A"), bool, 30) == ["I live in Braga ."]
    assert turns.parts("I live \x00in Braga \ud83d.") == ["I live in Braga ."]


#: Calls a plug-in's hooks with a `fetch` that writes down what it is sent, and refuses what is no text.
OPENCLAW = r"""
import { writeFileSync } from "node:fs";
const folder = process.argv[2];
const key = (name) => writeFileSync(`${folder}/jiyi.json`, JSON.stringify({ url: "http://127.0.0.1:9", key: name, agent: "helper" }));
const told = [], warned = [], hooks = {};
let away = false;
globalThis.fetch = async (_url, { headers, body }) => {
  if (away) throw new Error("away");
  told.push([headers.Authorization, ...JSON.parse(body).events.map((event) => event.payload.text)]);
  return { ok: true, json: async () => ({}) };
};
key("A");
const { default: plugin } = await import(`${folder}/index.js`);
plugin.register({ logger: { warn: (text) => warned.push(text) }, on: (name, hook) => (hooks[name] = hook), registerTool() {} });
const say = (text) => hooks.agent_end({ success: true, messages: [{ role: "user", content: text }] }, { sessionKey: "s" });
await say(`${"a".repeat(19_999)}\u{1F469}`);
await say("half \ud83d of \0 it");
away = true;
await say("A: my salary is 5,400");
key("B");
away = false;
await say("B: hello");
const until = Date.now() + 30_000;
while (!told.some(([, text]) => text === "B: hello") && Date.now() < until) await new Promise((done) => setTimeout(done, 20));
console.log(JSON.stringify(told));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_javascript_plug_in_halves_no_emoji_and_mixes_no_keys(tmp_path: Path) -> None:
    source = Path(plug_ins.__file__).with_name("openclaw")
    for name in ("index.js", "package.json"):
        (tmp_path / name).write_text((source / name).read_text())
    (tmp_path / "host.mjs").write_text(OPENCLAW)
    command = ["node", str(tmp_path / "host.mjs"), str(tmp_path)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    keys = {text: key for key, *texts in told for text in texts}
    assert [*keys] == ["a" * 19_999, "half  of  it", "A: my salary is 5,400", "B: hello"]
    assert [*keys.values()] == [*["Bearer A"] * 3, "Bearer B"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JIYI_KEY", KEY)
    monkeypatch.setenv("JIYI_URL", "http://memory.example:8765")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    get_settings.cache_clear()
    yield tmp_path
    get_settings.cache_clear()


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["connect", *arguments, "--yes"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("host", ["cursor", "codex", "claude-code", "hermes"])
def test_what_connect_shows_holds_no_key_also_when_it_takes_it_away(
    host: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the one in JIYI_KEY, nor the one that was written before, nor those of other servers in the
    lines around.
    """
    servers = home / ".cursor" / "mcp.json"
    servers.parent.mkdir()
    other = {"other": {"env": {"OTHER_API_KEY": "anything-0"}}}
    servers.write_text(json.dumps({"mcpServers": other}, indent=2))
    seen = shown(host)
    monkeypatch.setenv("JIYI_KEY", "")
    get_settings.cache_clear()
    seen += shown(host, "--remove")
    assert KEY not in seen
    assert "anything-0" not in seen
    assert KEY not in "".join(path.read_text() for path in home.rglob("*") if path.is_file())


def test_a_key_behind_a_link_is_taken_away_too(home: Path) -> None:
    target = home / "dotfiles" / "mcp.json"
    link = home / ".cursor" / "mcp.json"
    for folder in (target.parent, link.parent):
        folder.mkdir()
    link.symlink_to(target)
    shown("cursor")
    assert KEY in target.read_text()
    shown("cursor", "--remove")
    assert not target.exists()
    assert link.is_symlink()
    shown("cursor")
    assert KEY in target.read_text()


def test_what_hooks_noted_goes_with_them(home: Path) -> None:
    shown("claude-code")
    hook.places().mkdir()
    (hook.places() / "x.json").write_text("{}")
    shown("claude-code", "--remove")
    assert [path for path in home.rglob("*") if path.is_file()] == []
