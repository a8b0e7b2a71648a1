"""The documents against the code: examples that work, tables that are complete, links that lead somewhere."""

from __future__ import annotations

import doctest
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args
from unittest.mock import create_autospec

import pytest
import redis
from kombu import Connection, Exchange, Queue
from kombu.transport.virtual import Channel, Message
from pydantic import BaseModel

from engine.providers.health import ProviderName
from jiyi import Client
from jiyi.client import by_hand
from jiyi.protocol import event_bodies
from jiyi.protocol import events as wire
from jiyi.protocol.retrieval import Debug, Filters
from jiyi.protocol.wire.broker import EXCHANGE, INTAKE_QUEUE
from jiyi.settings import Settings
from tools.docs_links import FIRST, for_the_site
from tools.settings import documentation

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"

#: Pages below docs/.
MOST_PAGES = 20
#: Read by Docker Compose and by the benchmarks, not by the service.
OTHER_VARIABLES = {
    "JIYI_DATABASE_PASSWORD",
    "JIYI_BENCH_CACHE",
    "JIYI_SOURCE_KEY",
    "JIYI_TEST_LLM",
    "JIYI_TEST_LLM_MODEL",
}


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def table_names(section: str) -> Iterator[list[str]]:
    """The names in the first column of each table whose head is ``field`` or ``filter``."""
    for head, rows in re.findall(
        r"^\| (field|filter) \|.*\n\|[-|]+\n((?:\|.*\n)+)", section, flags=re.MULTILINE
    ):
        assert head
        yield [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def section(text: str, heading: str) -> str:
    (found,) = re.findall(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL
    )
    return found


# docs/events.md


@pytest.mark.parametrize("example", blocks(read("events.md"), "json"))
def test_every_example_of_an_event_is_valid_and_says_nothing_that_is_ignored(example: str) -> None:
    decoded = event_bodies.decode(example.encode())
    assert decoded.rejected == []
    content = json.loads(example)
    for event, sent in zip(decoded.events, content.get("events", [content]), strict=True):
        assert sent.keys() <= type(event).model_fields.keys()
        assert sent["payload"].keys() <= type(event.payload).model_fields.keys()


def test_every_type_has_an_example_in_english_and_one_in_chinese() -> None:
    for event_type in wire.EVENT_TYPES:
        examples = blocks(section(read("events.md"), event_type), "json")
        assert {
            event.type for example in examples for event in event_bodies.decode(example.encode()).events
        } == {event_type}
        assert sorted(re.search("[\u4e00-\u9fff]", example) is not None for example in examples) == [
            False,
            True,
        ]


@pytest.mark.parametrize(
    ("heading", "models"),
    [
        ("Envelope", [wire.MemoryObserved]),
        ("memory.observed", [wire.Observation]),
        ("agent.configured", [wire.Configuration, wire.ImportedCounters]),
        ("session.ended", [wire.Ending]),
        ("node.executed", [wire.Execution]),
        ("turn.recorded", [wire.Turn]),
        ("turn.step", [wire.StepTaken]),
        ("feedback.given", [wire.Vote]),
    ],
)
def test_the_tables_name_exactly_the_fields_there_are(heading: str, models: list[type[BaseModel]]) -> None:
    tables = list(table_names(section(read("events.md"), heading)))
    told = [
        sorted(name for name, field in model.model_fields.items() if not field.exclude) for model in models
    ]
    assert [sorted(table) for table in tables] == told


def test_required_fields_names_and_refusals_are_as_they_are_told() -> None:
    text = read("events.md")
    assert {frozenset(cls.model_fields) for cls in wire.EVENT_CLASSES} == {
        frozenset(wire.MemoryObserved.model_fields)
    }  # one envelope
    payloads = [
        wire.Observation,
        wire.Configuration,
        wire.ImportedCounters,
        wire.Execution,
        wire.Turn,
        wire.StepTaken,
        wire.Vote,
    ]
    models: list[type[BaseModel]] = [wire.MemoryObserved, *payloads]
    required = {
        name for model in models for name, field in model.model_fields.items() if field.is_required()
    } | {"type"}
    stated = {
        row.split("`")[1]
        for row in text.splitlines()
        if row.startswith("| `") and re.search(r", required\.(?: |$)", row)
    }
    assert stated == required
    assert f"topic exchange `{EXCHANGE}`" in text
    assert f"durable queue `{INTAKE_QUEUE}`" in text
    event = {
        "type": "memory.observed",
        "group_id": "g",
        "agent_id": "a",
        "payload": {"description": "x", "poignancy": 11},
    }
    assert f"`{event_bodies.decode(json.dumps(event).encode()).rejected[0][1]}`" in text


@pytest.mark.parametrize("name", sorted(path.name for path in DOCS.glob("*.md")))
def test_settings_that_are_named_exist_and_have_the_default_that_is_stated(name: str) -> None:
    text = read(name)
    for variable in set(re.findall(r"JIYI_[A-Z_]*[A-Z]", text)) - OTHER_VARIABLES:
        assert variable.removeprefix("JIYI_").lower() in Settings.model_fields, variable
    for number, variable in re.findall(r"([\d,]*\d) \(`(JIYI_[A-Z_]+)`\)", text):
        assert (
            int(number.replace(",", ""))
            == Settings.model_fields[variable.removeprefix("JIYI_").lower()].default
        ), variable


def python_block(imports: str) -> str:
    (found,) = [
        block
        for block in blocks(read("events.md"), "python")
        if re.search(rf"^{imports}", block, re.MULTILINE)
    ]
    return found


def test_publishing_with_kombu_as_described_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIYI_BROKER_URL", "memory://test-docs")
    exec(compile(python_block("from kombu"), "events.md", "exec"), {})
    queue = Queue("memory.intake", Exchange("memory.events", type="topic"), routing_key="#")
    arrived: list[Any] = []
    with (
        Connection("memory://test-docs") as connection,
        connection.Consumer([queue], on_message=arrived.append),
    ):
        connection.drain_events(timeout=60)
    (message,) = arrived
    message.ack()
    assert message.content_type == wire.CONTENT_TYPE
    assert message.delivery_info["routing_key"] == "memory.observed"
    (event,) = event_bodies.decode(
        message.body if isinstance(message.body, bytes) else message.body.encode()
    ).events
    assert event.agent_id == "Tomas"


def test_pushing_to_the_list_as_described_is_what_kombu_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    valkey = create_autospec(redis.Redis, instance=True)
    monkeypatch.setenv("JIYI_REDIS_URL", "redis://nowhere")
    monkeypatch.setattr(redis.Redis, "from_url", lambda url: valkey)
    exec(compile(python_block("import redis"), "events.md", "exec"), {})
    key, value = valkey.lpush.call_args.args
    assert key == INTAKE_QUEUE
    message = Message(json.loads(value), channel=Channel.__new__(Channel))
    assert message.content_type == wire.CONTENT_TYPE
    (event,) = event_bodies.decode(message.body).events
    assert event.agent_id == "林岚"


# docs/retrieval.md


def test_the_worked_example_is_computed_by_the_code() -> None:
    (example,) = blocks(read("retrieval.md"), "pycon")
    test = doctest.DocTestParser().get_doctest(example, {}, "retrieval.md", "docs/retrieval.md", 0)
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert results.attempted >= 8
    assert results.failed == 0, "".join(report)


def test_the_filters_and_debug_fields_are_those_there_are() -> None:
    (names,) = table_names(section(read("retrieval.md"), "Filters"))
    assert sorted(names) == sorted(Filters.model_fields)
    assert [name for name in Debug.model_fields if f"`{name}`" not in read("retrieval.md")] == []


# All documents


def test_configuration_md_is_up_to_date_and_there_are_few_pages() -> None:
    """A page more is a page that nobody finds: let it be a section of the page whose reader needs it."""
    assert read("configuration.md") == documentation(), (
        "run: python -m tools.settings > docs/configuration.md"
    )
    assert len(list(DOCS.rglob("*.md"))) <= MOST_PAGES


def anchors(text: str) -> set[str]:
    """What a heading may be linked by."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "path",
    [*ROOT.glob("README*.md"), ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))],
    ids=lambda path: path.name,
)
def test_links_lead_to_files_that_exist(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)(?: \"[^\"]*\")?\)", text) + re.findall(
        r"(?:src|href)=\"([^\"]+)\"", text
    ):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = path.parent / file if file else path
        if not place.exists() or (
            anchor and place.suffix == ".md" and anchor not in anchors(place.read_text(encoding="utf-8"))
        ):
            broken.append(target)
    assert broken == []


def test_the_reference_documents_name_no_place_of_one_machine() -> None:
    for name in ("events.md", "retrieval.md", "configuration.md"):
        assert re.search(r"(?<![\w:/])/(?:work|home|root|tmp|opt)/", read(name)) is None, name


def test_every_provider_is_among_the_checks_that_are_told_of() -> None:
    row = next(line for line in read("operations.md").splitlines() if line.startswith("| Overview |")).lower()
    paragraph = next(line for line in read("deployment.md").splitlines() if line.startswith("`/healthz`"))
    for name in get_args(ProviderName):
        assert name in row
        assert f"`{name}`" in paragraph


PAGE = Path(__file__).resolve().parents[3] / "docs" / "client.md"
ROW = re.compile(r"^\| (itself|`\w+`) \| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)


def test_every_verb_that_is_written_by_hand_is_in_the_table_and_no_other() -> None:
    client = Client("docs", transport=cast("Any", SimpleNamespace()))
    own = {
        name
        for name, member in inspect.getmembers(Client)
        if not name.startswith("_") and not isinstance(member, property)
    }
    bases = {
        name: vars(type(of).__base__)
        for name, of in vars(client).items()
        if type(of).__base__.__module__ == by_hand.__name__
    }
    told = {
        place.strip("`"): set(re.findall(r"\w+", names))
        for place, names in ROW.findall(PAGE.read_text(encoding="utf-8"))
    }
    hand = {name: {verb for verb in members if not verb.startswith("_")} for name, members in bases.items()}
    assert told == {"itself": own} | hand


def test_every_page_is_in_the_menu_of_the_site_once() -> None:
    menu = re.findall(
        r"^ +- (?:\w+: )?([a-z.]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(menu) == sorted(["index.md", "index.zh.md", *(page.name for page in DOCS.glob("*.md"))])


def test_the_first_page_says_the_same_in_both_languages() -> None:
    """Sections, figures, dates, commands, links and their order; Chinese may have more."""
    english, chinese = ((ROOT / name).read_text("utf-8") for name in FIRST)

    def links(text: str) -> set[str]:
        return set(re.findall(r"\]\(((?:docs/)?\w+\.md(?:#[\w-]+)?)\)", text))

    assert links(english) - {"README.zh.md"} <= links(chinese)
    assert english.count("\n## ") == chinese.count("\n## ")
    figures = r"(?<![\w.])\.\d{3}|\d{4}-\d\d-\d\d"
    assert re.findall(figures, english) == re.findall(figures, chinese)
    assert re.findall(r"make [a-z]+|python -m [\w.]+", english) == re.findall(
        r"make [a-z]+|python -m [\w.]+", chinese
    )


def test_links_of_the_site_lead_to_its_pages_or_to_the_repository() -> None:
    text = "[a](docs/api.md#keys) [b](SECURITY.md) `[c](d.md)` [e](https://e.org)\n```\n[f](g.md)\n```\n"
    kept = "`[c](d.md)` [e](https://e.org)\n```\n[f](g.md)\n```\n"
    assert for_the_site(text, "", None) == "[a](api.md#keys) b " + kept
    assert (
        for_the_site(text, "", "https://x.org/j/")
        == "[a](api.md#keys) [b](https://x.org/j/blob/main/SECURITY.md) " + kept
    )
    assert (
        for_the_site("![a](images/b.png) [README](../README.md#use)", "docs", None)
        == "![a](images/b.png) [README](index.md#use)"
    )
