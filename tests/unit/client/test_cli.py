"""jiyi.cli without a service: options, errors, checking of imports, bars, alignment, what is shown of
LLMs.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import create_autospec
from uuid import UUID, uuid4

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from jiyi.cli import import_sources, observe, output, retrieval, shell, subjects, transfer  # noqa: F401 – before one is patched
from jiyi.cli import operations as embedding
from jiyi.cli.app import app
from jiyi.cli.transfer import MAX_SHOWN, EventTarget, read
from jiyi.client.client import Client
from jiyi.client.steps import Transport
from jiyi.errors import (
    BrokerUnavailable,
    EmbeddingUnavailable,
    InvalidEvent,
    InvalidRequest,
    NoAnswer,
    SettingsError,
)
from jiyi.protocol.providers import PRESETS, MoveState
from jiyi.protocol.retrieval import Answer, Debug, FocalAnswer, ScoreComponent, ScoredMemory
from jiyi.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
OLD_V7 = "01a20035-2f03-73d2-9c51-b4d066f789da"
OLD_V5 = "fd78082b-f674-548c-910f-2eb291874e5c"


@pytest.fixture
def client(monkeypatch):
    """Stands for the session's client, with its verbs and their arguments; answers what a test says."""
    real = Client(
        "g",
        settings=Settings(broker_url="memory://", redis_url="redis://localhost"),
        transport=create_autospec(Transport),
    )
    fake = create_autospec(real, instance=True)
    fake.transport = real.transport
    fake.settings = real.settings
    fake.__enter__.return_value, fake.__exit__.return_value = fake, None

    def connect(ctx, group=None):
        fake.group = group or ctx.obj.group or "g"
        return fake

    for module in (shell, observe, subjects, transfer):
        monkeypatch.setattr(module, "connect", connect)
    return fake


def published(client):
    """The events that a command published, in their order."""
    return [event for call in client.observe_many.call_args_list for event in call.args[0]]


def run(*arguments, **options):
    return CliRunner().invoke(app, list(map(str, arguments)), **options)


def node(description, recency, relevance, importance):
    moment = datetime(2026, 3, 2, 12, tzinfo=UTC)
    parts = {"recency": recency, "relevance": relevance, "importance": importance}
    return ScoredMemory.model_construct(
        node_id=uuid4(),
        type="event",
        node_count=1,
        created_at=moment,
        last_accessed=moment,
        description=description,
        score=sum(parts.values()),
        **{
            name: ScoreComponent(raw=0.5, normalised=0.5, weight=1, contribution=value)
            for name, value in parts.items()
        },
    )


def focal(*nodes):
    debug = Debug(total_candidates=7, retrieved_count=len(nodes), min_score=0.25, max_score=5, mode="recent")
    return FocalAnswer(query="房租", status="ok", retrieved_nodes=list(nodes), debug=debug)


def rendered(renderable, width):
    console = Console(width=width, color_system=None, markup=False, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get().splitlines()


def test_a_bar_is_as_long_as_its_share_of_the_best_score_and_its_parts_differ_without_colour():
    for parts, best, width, expected in (
        ((0.5, 3.0, 2.0), 5.5, 11, [1, 6, 4]),  # one cell is half a point
        ((0.5, 1.0, 0.5), 4.0, 8, [1, 2, 1]),  # half of the best score: half of the bar
        ((0.2, 0.2, 0.2), 4.0, 10, [1, 0, 1]),  # ends at .5, 1 and 1.5, halves upwards
        ((0.0, 0.0, 0.0), 0.0, 10, [0, 0, 0]),  # every weight is 0
        ((3.0, 3.0, 3.0), 3.0, 10, [10, 0, 0]),  # never wider than the bar
    ):
        assert output.lengths(parts, best, width) == expected
    assert output.stacked(0.5, 3.0, 2.0, best=5.5, width=11).plain == "░██████▒▒▒▒"
    assert output.legend().plain == "░ recency  █ relevance  ▒ importance"


def table(width, *nodes):
    return rendered(retrieval.focal_table(focal(*nodes), width), width)


@pytest.mark.parametrize("width", [80, 120])
def test_chinese_and_english_rows_have_one_width(width):
    chinese = "房东贺叔坐下喝了半杯茶，放下杯子才说：五月一号起，房租要从3200涨到3800，" * 4
    lines = table(width, node(chinese, 0.5, 3, 1.5), node("The rent goes up", 0.2, 1, 1))
    rows = lines[1:-2]
    assert {cell_len(line) for line in rows} == {width}
    start = next(line for line in rows if "memory" in line).index("memory")
    assert rows[2][start] == "房"
    assert lines[0] == "▸ 房租"
    assert lines[-2] == output.legend().plain
    assert lines[-1].strip() == "candidates 7 · mode recent · scores of all 0.25 … 5.00"


def test_no_character_is_lost_where_a_text_is_not_cut_and_a_long_one_ends_with_an_ellipsis():
    text = "一二三四五六七八九十" * 6
    lines = table(80, node(text, 0.5, 3, 1.5))
    assert "".join(char for line in lines[3:-2] for char in line if char in text) == text
    assert output.cut("abc def ghi", 4, 2).plain == "abc\ndef…"
    assert output.cut("一二三四五六", 4, 2).plain == "一二\n三…"
    assert output.cut("short", 10, 1).plain == "short"


def test_a_memory_cannot_command_the_terminal():
    assert output.plain("a\x1b[2Jb\r\nc\u202ed\x9b") == "a [2Jb c d"
    assert output.block("one\n  two\x1b[0m") == "one\n  two [0m"
    assert any("[red]x[/red]" in line for line in table(80, node("[red]x[/red]", 1, 1, 1)))


@pytest.mark.parametrize(("status", "code"), [("no_candidates", 0), ("unknown_agent", 1)])
def test_an_answer_without_memories_says_why_and_an_unknown_agent_is_a_failure(client, status, code):
    group = FocalAnswer(query="x", status=status, message="because")
    client.retrieve.return_value = Answer(status=status, groups=[group])
    result = run("retrieve", "a", "x")
    assert (result.exit_code, "because" in result.stdout) == (code, True)
    assert json.loads(run("retrieve", "a", "x", "--json").stdout)["status"] == status


def test_retrieve_passes_every_option_on(client):
    client.retrieve.return_value = Answer(status="ok", groups=[focal()])
    words = """retrieve a x y -k 3 --mode elapsed --recency-w 0 --recency-decay 0.5 --types chat --types thought --kinds session --session-id s
        --keywords k --created-after 2026-03-02T00:00:00+08:00 --min-similarity 0.2 --include-archived --no-touch --now 2026-04-01T00:00:00Z --json"""
    result = run(*words.split())
    assert result.exit_code == 0, result.output
    call = client.retrieve.call_args
    assert call.args == ("a", ["x", "y"])
    assert call.kwargs.pop("filters").model_dump(exclude_defaults=True) == {
        "types": ["chat", "thought"],
        "kinds": ["session"],
        "created_after": datetime(2026, 3, 1, 16, tzinfo=UTC),
        "session_id": "s",
        "keywords": ["k"],
        "min_similarity": 0.2,
        "include_archived": True,
    }
    now = datetime(2026, 4, 1, tzinfo=UTC)
    weights = {"mode": "elapsed", "recency_w": 0.0, "recency_decay": 0.5}
    assert call.kwargs == {"top_k": 3, **weights, "touch": False, "now": now}
    assert json.loads(result.stdout)["status"] == "ok"


def test_observe_publishes_all_its_options(client):
    words = f"""-g mine observe a x --node-type thought --poignancy 4 --keywords k --keywords l --subject s --predicate p --object o
        --session-id m --evidence {OLD_V7} --occurred-at 2026-03-02T07:15:00Z --no-wait"""
    result = run(*words.split())
    (event,) = published(client)
    assert result.stdout.strip() == str(event.event_id)
    assert (event.group_id, event.agent_id, event.session_id) == ("mine", "a", "m")
    assert event.occurred_at == datetime(2026, 3, 2, 7, 15, tzinfo=UTC)
    triple = {"subject": "s", "predicate": "p", "object": "o"}
    about = {"node_type": "thought", "description": "x", **triple, "keywords": ["k", "l"], "poignancy": 4.0}
    assert event.payload.model_dump(exclude_defaults=True) == {**about, "evidence": [UUID(OLD_V7)]}


def test_observe_reads_one_memory_a_line_and_publishes_none_if_one_is_wrong(client):
    result = run("observe", "a", "-", input=f"fine\n{'x' * 20_001}\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("jiyi: line 2: description: 20,001 characters")
    assert not published(client)
    result = run("observe", "a", "-", "--no-wait", "--json", input="one\n\n二\n")
    assert [event.payload.description for event in published(client)] == ["one", "二"]
    assert json.loads(result.stdout) == {"event_ids": [str(event.event_id) for event in published(client)]}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("retrieve a x --topk 3", "unknown option '--topk': did you mean --top-k?"),
        *((f"retrieve a x {option}", "") for option in ("--mode wrong", "-k 0", "--now yesterday")),
        ("observe a x -g", ""),
        (f"dead_letters resolve discard {OLD_V7}", "needs --yes"),  # no terminal to ask at
        ("stores delete notes", "needs --yes"),
        *((f"memory list {option}", "") for option in ("--limit many", "--archived sometimes")),
        ("agents liste", "Did you mean 'list'"),
        ("import jsonl x --keep-group --into-group g", ""),
        ("export jsonl --json", ""),
        ("reembed --batch 20000", ""),
    ],
)
def test_wrong_usage_exits_2(client, words, problem):
    result = run(*words.split())
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.replace("│", " ").split())


def test_the_version_and_moments_which_always_have_an_offset():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, "jiyi 0.1.0\n")
    for text in ("2026-03-02", "2026-03-02T07:15", "2026-03-02T07:15:00Z"):
        assert shell.moment(text).utcoffset() is not None, text


def moved(phase, done=0, **fields):
    return MoveState(phase=phase, model="new", replaces="old", done=done, **fields)


def test_reembed_asks_for_steps_until_it_is_done(client, pauses):
    client.reembedding.step.side_effect = [
        moved("filling", 2, left=3),
        moved("filling", 2),
        moved("waiting", 1, wait=9),
        moved("waiting", wait=0.2),
        moved("folding", 5, left=0),
        moved("done"),
    ]
    result = run("reembed", "--to", "openai:new", "--batch", "2", "--all-models")
    assert (result.exit_code, result.stdout) == (0, "5 memories embedded; the service uses new\n")
    same = {"to": "openai:new", "batch": 2, "everything": True}
    steps = [call.kwargs for call in client.reembedding.step.call_args_list]
    assert steps == [same | {"count": number == 0} for number in range(6)]
    assert pauses == [0, 0, embedding.LONGEST_PAUSE, 0.2, 0]


def test_reembed_outlasts_a_few_failures_and_says_so(client, pauses):
    failures = NoAnswer("no answer"), EmbeddingUnavailable("away")
    client.reembedding.step.side_effect = [failures[0], moved("filling", 4), failures[1], moved("done")]
    result = run("reembed", "--json")
    assert (result.exit_code, json.loads(result.stdout)["embedded"]) == (0, 4)
    assert "jiyi: no answer (trying again)" in result.stderr
    assert "jiyi: away (trying again)" in result.stderr
    counted = [call.kwargs["count"] for call in client.reembedding.step.call_args_list]
    assert counted == [True, True, False, False]


def test_reembed_gives_up_after_too_many_failures_and_at_once_if_it_is_refused(client, pauses):
    step = client.reembedding.step
    step.side_effect = [EmbeddingUnavailable("away")] * (embedding.MAX_FAILURES + 1)
    result = run("reembed")
    assert (result.exit_code, step.call_count) == (1, embedding.MAX_FAILURES)
    assert "start the command again to go on\njiyi: away\n" in result.stderr
    step.reset_mock()
    step.side_effect = [InvalidRequest(["to: a move to other is under way"])]
    result = run("reembed", "--to", "new")
    assert (result.exit_code, step.call_count) == (1, 1)
    assert "a move to other is under way" in result.stderr
    step.side_effect = [moved("cancelled")]
    result = run("reembed", "--cancel")
    assert (result.exit_code, result.stdout) == (0, "the move to new is cancelled; nothing has changed\n")
    client.reembedding.step.assert_called_with(cancel=True)


def test_an_error_is_one_line_with_markup_as_text_and_in_json_one_document(client):
    client.retrieve.side_effect = KeyboardInterrupt
    result = run("retrieve", "a", "x")
    assert (result.exit_code, "Traceback" in result.output) == (130, False)
    long = "the broker" + " very" * 40
    client.observe_many.side_effect = BrokerUnavailable(f"cannot [bold]reach[/bold]\n{long}")
    result = run("observe", "a", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"jiyi: cannot [bold]reach[/bold] {long}\n"
    problems = ["a: wrong", "b: wrong"]
    client.retrieve.side_effect = InvalidEvent(problems)
    result = run("retrieve", "a", "x", "--json")
    assert (result.exit_code, result.stderr) == (1, "jiyi: a: wrong; b: wrong\n")
    error = {"code": "invalid_event", "message": "a: wrong; b: wrong", "problems": problems}
    assert json.loads(result.stdout) == {"error": error}


def test_an_unreadable_file_or_folder_is_an_ordinary_error(client, tmp_path):
    result = run("import", "jsonl", tmp_path / "none.jsonl", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "file"
    assert "No such file" in result.stderr
    result = run("import", "stanford", tmp_path)
    assert result.exit_code == 1
    assert "no Stanford memory" in result.stderr


@pytest.mark.parametrize(("broker", "valkey"), [("foo://x", "redis://x"), ("redis://x", "foo")])
def test_an_address_that_cannot_be_one_is_a_settings_error(configure, broker, valkey):
    configure(broker_url=broker, redis_url=valkey)
    result = run("stats", "show", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == SettingsError.code


def test_up_becomes_the_service_of_the_checkout(monkeypatch, tmp_path):
    became = []
    monkeypatch.setattr("os.execve", lambda *call: became.append((Path.cwd(), call)))
    monkeypatch.setenv("PYTHONPATH", "/else")
    monkeypatch.chdir(tmp_path)
    assert run("up", "--once").exit_code == 0
    ((folder, (program, arguments, environment)),) = became
    assert (folder, program) == (ROOT, sys.executable)
    assert arguments == [sys.executable, "-m", "workers.up", "--once"]
    assert environment["PYTHONPATH"] == f"{ROOT}:/else"


def lines(*contents, **target):
    rows = [json.dumps(content).encode() if isinstance(content, dict) else content for content in contents]
    return read(rows, EventTarget(**{"default_group": "g", **target}))


def full(event_id=OLD_V5, evidence=(), **fields):
    head = {"type": "memory.observed", "event_id": event_id, "group_id": "other", "agent_id": "a"}
    return {**head, "payload": {"description": "x", "evidence": list(evidence)}, **fields}


def test_each_bad_line_is_named_with_its_number_and_field():
    found = lines(
        # a byte order mark and Windows' line end do not matter
        '\ufeff{"agent_id": "a", "description": "二"}\r\n'.encode(),
        {"agent_id": "a", "description": " ", "poignancy": 11},
        b"nonsense",
        b"",
        {"description": "x"},
        {"agent_id": "a", "description": "x", "colour": 1},
        b"[1]",
        full(event_id="x"),
        b"\xff",
        b"[" * 100_000,
        {"type": "agent.configured", "agent_id": "a", "payload": {"mode": "stanford"}},
    )
    assert (found.total, found.bad) == (10, 8)
    memory, setting = found.events
    assert (memory.payload.description, setting.payload.mode) == ("二", "stanford")
    for number, problem in enumerate(
        (
            "2: description: must not be blank",
            "2: poignancy: Input should be less than or equal to 10 (got 11)",
            "3: not JSON: Expecting value: line 1 column 1 (char 0)",
            "5: agent_id: required, but missing",
            "6: unknown option 'colour': there is none of this name",
            "7: must be a JSON object",
            "8: event_id: ",
            "9: not JSON: ",
        )
    ):
        assert found.problems[number].startswith(f"line {problem}")
    assert found.problems[8].startswith("line 10: ")
    many = lines(*[b"{}"] * 100)
    assert (many.bad, len(many.problems)) == (100, MAX_SHOWN)


def test_an_event_from_another_group_gets_an_id_of_its_own_and_so_does_its_evidence():
    (event,) = lines(full(event_id=OLD_V5, evidence=[OLD_V7])).events
    assert event.group_id == "g"
    assert str(event.event_id) != OLD_V5
    (evidence,) = event.payload.evidence
    assert lines(full(event_id=OLD_V7)).events[0].event_id == evidence  # also when it comes in another file
    assert (evidence.version, str(evidence)[:18]) == (7, OLD_V7[:18])  # with its time
    assert str(evidence) != OLD_V7
    assert lines(full(event_id=OLD_V5)).events[0].event_id == event.event_id  # a second import is the same
    assert lines(full(event_id=OLD_V5), default_group="h").events[0].event_id != event.event_id
    assert str(lines(full(group_id="g")).events[0].event_id) == OLD_V5  # of the same group
    assert str(lines(full(), keep_ids=True).events[0].event_id) == OLD_V5
    (other,) = lines(full(group_id="g"), agent="b").events  # another agent may take the memories
    assert (other.agent_id, str(other.event_id) == OLD_V5) == ("b", False)
    assert lines({"description": "x"}, agent="b").events[0].agent_id == "b"
    (kept,) = lines(full(), keep_group=True).events
    assert (kept.group_id, str(kept.event_id)) == ("other", OLD_V5)


def test_nothing_is_published_if_a_line_is_bad(client, tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_text('{"agent_id": "a", "description": "fine"}\n{}\n')
    result = run("import", "jsonl", file)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "line 2: agent_id: required, but missing"
    assert "1 of 2 line" in result.stderr.splitlines()[-1]
    assert not published(client)
    result = run("import", "jsonl", file, "--skip-bad", "--no-wait", "--json")
    assert result.exit_code == 0
    counts = {"published": 1, "skipped": 1, "waited": False}
    assert json.loads(result.stdout) == {**counts, "groups": ["g"], "agents": ["a"]}
    assert len(published(client)) == 1


@pytest.mark.parametrize("columns", ["80", "200"])
def test_a_table_that_does_not_fit_is_shown_row_below_row(columns: str, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    made = output.table("some", "id", "other", "when", "memory", grow=["memory"])
    for number in range(2):
        output.row(made, f"{number}" * 36, "x" * 30, "2026-03-02 07:15", "克劳斯在读一本关于城市的书 " * 4)
    output.show(made)
    shown = capsys.readouterr().out.splitlines()
    assert all(cell_len(line.rstrip()) <= int(columns) for line in shown)
    assert sum("2026-03-02 07:15" in line for line in shown) == 2
    assert any(line.startswith("memory") for line in shown) == (columns == "80")


def test_the_document_names_every_vendor_with_its_default_model_and_key() -> None:
    text = (ROOT / "docs" / "deployment.md").read_text("utf-8").partition("## LLMs")[2]
    for preset in PRESETS.values():
        names = (f"| `{preset.name}`", f"| `{preset.name}:")
        (row,) = [line for line in text.splitlines() if line.startswith(names)]
        assert preset.chat_model in row
        assert all(variable in row for variable in preset.key_variables if preset.needs_key)
