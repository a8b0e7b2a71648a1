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
    f"JIYI_{name}"
    for name in ("DATABASE_PASSWORD", "BENCH_CACHE", "SOURCE_KEY", "TEST_LLM", "TEST_LLM_MODEL")
}


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def table_names(section: str) -> Iterator[list[str]]:
    """The names in the first column of each table whose head is ``field`` or ``filter``."""
    tables = re.findall(r"^\| (?:field|filter) \|.*\n\|[-|]+\n((?:\|.*\n)+)", section, flags=re.MULTILINE)
    for rows in tables:
        yield [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def section(text: str, heading: str) -> str:
    pattern = rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)"
    (found,) = re.findall(pattern, text, flags=re.MULTILINE | re.DOTALL)
    return str(found)


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
        events = [event for example in examples for event in event_bodies.decode(example.encode()).events]
        assert {event.type for event in events} == {event_type}
        chinese = [re.search("[\u4e00-\u9fff]", example) is not None for example in examples]
        assert sorted(chinese) == [False, True]


MODELS: dict[str, list[type[BaseModel]]] = {
    "Envelope": [wire.MemoryObserved],
    "memory.observed": [wire.Observation],
    "agent.configured": [wire.Configuration, wire.ImportedCounters],
    "session.ended": [wire.Ending],
    "node.executed": [wire.Execution],
    "turn.recorded": [wire.Turn],
    "turn.step": [wire.StepTaken],
    "feedback.given": [wire.Vote],
}


@pytest.mark.parametrize("heading", MODELS)
def test_the_tables_name_exactly_the_fields_there_are(heading: str) -> None:
    tables = list(table_names(section(read("events.md"), heading)))
    fields = [
        sorted(name for name, field in model.model_fields.items() if not field.exclude)
        for model in MODELS[heading]
    ]
    assert [sorted(table) for table in tables] == fields


def test_required_fields_names_and_refusals_are_as_the_document_says() -> None:
    text = read("events.md")
    envelope = frozenset(wire.MemoryObserved.model_fields)
    assert {frozenset(cls.model_fields) for cls in wire.EVENT_CLASSES} == {envelope}  # one envelope
    fields = [item for models in MODELS.values() for model in models for item in model.model_fields.items()]
    required = {name for name, field in fields if field.is_required()} | {"type"}
    rows = [row for row in text.splitlines() if row.startswith("| `")]
    assert {row.split("`")[1] for row in rows if re.search(r", required\.(?: |$)", row)} == required
    assert f"topic exchange `{EXCHANGE}`" in text
    assert f"durable queue `{INTAKE_QUEUE}`" in text
    head = {"type": "memory.observed", "group_id": "g", "agent_id": "a"}
    event = {**head, "payload": {"description": "x", "poignancy": 11}}
    assert f"`{event_bodies.decode(json.dumps(event).encode()).rejected[0][1]}`" in text


@pytest.mark.parametrize("name", sorted(path.name for path in DOCS.glob("*.md")))
def test_settings_that_are_named_exist_and_have_the_default_that_is_stated(name: str) -> None:
    text = read(name)
    for variable in set(re.findall(r"JIYI_[A-Z_]*[A-Z]", text)) - OTHER_VARIABLES:
        assert variable.removeprefix("JIYI_").lower() in Settings.model_fields, variable
    for number, variable in re.findall(r"([\d,]*\d) \(`(JIYI_[A-Z_]+)`\)", text):
        default = Settings.model_fields[variable.removeprefix("JIYI_").lower()].default
        assert int(number.replace(",", "")) == default, variable


def python_block(imports: str) -> str:
    found = [
        text for text in blocks(read("events.md"), "python") if re.search(rf"^{imports}", text, re.MULTILINE)
    ]
    assert len(found) == 1
    return found[0]


def test_publishing_with_kombu_as_described_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    address, arrived = "memory://test-docs", list[Any]()
    monkeypatch.setenv("JIYI_BROKER_URL", address)
    exec(compile(python_block("from kombu"), "events.md", "exec"), {})
    queue = Queue("memory.intake", Exchange("memory.events", type="topic"), routing_key="#")
    with Connection(address) as connection, connection.Consumer([queue], on_message=arrived.append):
        connection.drain_events(timeout=60)
    (message,) = arrived
    message.ack()
    assert message.content_type == wire.CONTENT_TYPE
    assert message.delivery_info["routing_key"] == "memory.observed"
    body = message.body if isinstance(message.body, bytes) else message.body.encode()
    (event,) = event_bodies.decode(body).events
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
    targets = re.findall(r"\]\(([^)\s]+)(?: \"[^\"]*\")?\)", text)
    targets += re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    broken = []
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = path.parent / file if file else path
        named = anchors(place.read_text("utf-8")) if anchor and place.suffix == ".md" else {anchor}
        if not place.exists() or anchor not in named:
            broken.append(target)
    assert broken == []


def test_the_reference_documents_name_no_place_of_one_machine() -> None:
    for name in ("events.md", "retrieval.md", "configuration.md"):
        assert re.search(r"(?<![\w:/])/(?:work|home|root|tmp|opt)/", read(name)) is None, name


def test_every_provider_is_among_the_checks_that_documents_name() -> None:
    row = next(line for line in read("operations.md").splitlines() if line.startswith("| Overview |")).lower()
    paragraph = next(line for line in read("deployment.md").splitlines() if line.startswith("`/healthz`"))
    for name in get_args(ProviderName):
        assert name in row
        assert f"`{name}`" in paragraph


ROW = re.compile(r"^\| (itself|`\w+`) \| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)


def test_every_verb_that_is_written_by_hand_is_in_the_table_and_no_other() -> None:
    client = Client("docs", transport=cast("Any", SimpleNamespace()))
    members = inspect.getmembers(Client, lambda member: not isinstance(member, property))
    expected = {"itself": {name for name, _ in members if not name.startswith("_")}}
    for name, of in vars(client).items():
        if type(of).__base__.__module__ == by_hand.__name__:
            expected[name] = {verb for verb in vars(type(of).__base__) if not verb.startswith("_")}
    rows = ROW.findall(read("client.md"))
    assert {place.strip("`"): set(re.findall(r"\w+", names)) for place, names in rows} == expected


def test_every_page_is_in_the_menu_of_the_site_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    menu = re.findall(r"^ +- (?:\w+: )?([a-z.]+\.md)$", text, re.MULTILINE)
    assert sorted(menu) == sorted(["index.md", "index.zh.md", *(page.name for page in DOCS.glob("*.md"))])


def test_the_first_page_says_the_same_in_both_languages() -> None:
    """Sections, figures, dates, commands, links and their order; Chinese may have more."""
    english, chinese = ((ROOT / name).read_text("utf-8") for name in FIRST)

    def links(text: str) -> set[str]:
        return set(re.findall(r"\]\(((?:docs/)?\w+\.md(?:#[\w-]+)?)\)", text))

    assert links(english) - {"README.zh.md"} <= links(chinese)
    assert english.count("\n## ") == chinese.count("\n## ")
    for same in (r"(?<![\w.])\.\d{3}|\d{4}-\d\d-\d\d", r"make [a-z]+|python -m [\w.]+"):
        assert re.findall(same, english) == re.findall(same, chinese)


def test_links_of_the_site_lead_to_its_pages_or_to_the_repository() -> None:
    text = "[a](docs/api.md#keys) [b](SECURITY.md) `[c](d.md)` [e](https://e.org)\n```\n[f](g.md)\n```\n"
    kept = "`[c](d.md)` [e](https://e.org)\n```\n[f](g.md)\n```\n"
    link = "[b](https://x.org/j/blob/main/SECURITY.md)"
    assert for_the_site(text, "", None) == "[a](api.md#keys) b " + kept
    assert for_the_site(text, "", "https://x.org/j/") == f"[a](api.md#keys) {link} {kept}"
    below = "![a](images/b.png) [README](../README.md#use)"
    assert for_the_site(below, "docs", None) == "![a](images/b.png) [README](index.md#use)"
