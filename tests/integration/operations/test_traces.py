"""One trace goes from a program through broker, intake and embedding, and from a question through the queue
to its answer.

The processes are real, and so is what they send: a receiver of the test's own collects it over OTLP. And what
they log, as JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jiyi.protocol.wire.signatures import FORM as KEY
from tests.integration.operations.collector import Collector, Span, collecting
from tests.integration.operations.traced_program import SECRET_WORDS
from tests.integration.waiting import until
from tests.shared import few_processes
from workers import ephemeral
from workers.embedded.stack import Stack

pytestmark = pytest.mark.xdist_group("traces")  # one traced service for all of them

PROCESSES = ("web", "intake", "retrieval", "beat")
CHECKOUT = Path(__file__).resolve().parents[3]
Traces = dict[str, dict[str, str]]
#: Seconds until a process has sent what it has.
SENT_EVERY = {"OTEL_BSP_SCHEDULE_DELAY": "200"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what the traced processes write."""
    return tmp_path_factory.mktemp("traced")


@pytest.fixture(scope="module")
def traces(database: Stack, collector: Collector, logs: Path) -> Iterator[Traces]:
    """What a program did, by its traces, with a service whose processes are all traced."""
    with pytest.MonkeyPatch.context() as patch, ephemeral.environment(log_format="json"):
        for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, **SENT_EVERY}.items():
            patch.setenv(name, value)
        with ephemeral.served(logs) as (port, _), few_processes(), ephemeral.processes(logs):
            key = _key("traced")
            command = [
                sys.executable,
                "-m",
                "tests.integration.operations.traced_program",
                "traced",
                f"http://127.0.0.1:{port}",
                key,
            ]
            done = subprocess.run(
                command,
                cwd=CHECKOUT,
                capture_output=True,
                text=True,
                timeout=250,
                check=False,
                env=dict(os.environ),
            )
            assert done.returncode == 0, done.stderr
            told: Traces = json.loads(done.stdout)
            for trace in (deeds[name] for deeds in told.values() for name in ("remembered", "many")):
                until(lambda trace=trace: any(span.name == "retrievable" for span in collector.of(trace)), 60)
            until(
                lambda: all(
                    "{" in (logs / f"{process}.log").read_text(encoding="utf-8") for process in PROCESSES
                ),
                120,
            )
        yield told  # the processes have ended, and sent all that they had


def _key(group: str) -> str:
    from jiyi.protocol.accounts import CreateKey, NewKey
    from jiyi.protocol.wire.signatures import new_key
    from models.accounts.actions import create_key
    from models.db.actions import Actor

    key = new_key()
    wanted = CreateKey(key=NewKey.of(key), name="traced", scopes=["publish", "read"], expires_at=None)
    create_key.perform(Actor(group, "test", operator=True), wanted)
    return str(key)


def chain(spans: list[Span], last: Callable[[Span], bool]) -> list[str]:
    """The names from the trace's beginning down to a span."""
    by_id = {span.id: span for span in spans}
    span: Span | None = next(span for span in spans if last(span))
    names = []
    while span is not None:
        names.append(span.name)
        span = by_id.get(span.parent)
    return names[::-1]


def test_what_is_observed_is_one_trace_until_it_is_retrievable(traces: Traces, collector: Collector) -> None:
    for way in ("broker", "http"):
        print(f"\n{way}:\n{collector.tree(traces[way]['remembered'])}")  # noqa: T201 – to be looked at
    sent = ["remember", "send memory.observed"]
    spans = collector.of(traces["broker"]["remembered"])
    assert chain(spans, lambda span: span.name == "retrievable") == [
        *sent,
        "process events",
        "work embed",
        "retrievable",
    ]
    assert {span.process for span in spans} >= {"jiyi-program", "jiyi-intake", "jiyi-all"}
    (model,) = [span for span in spans if span.attributes.get("gen_ai.operation.name") == "embeddings"]
    assert chain(spans, lambda span: span is model)[-2:] == ["work embed", model.name]
    assert model.attributes["gen_ai.request.model"].startswith("hashing")
    # what took no time has none
    servers = [span for span in collector.spans if "db.system.name" in span.attributes]
    assert any(span.name.startswith("COPY ") and span.process == "jiyi-intake" for span in servers)
    assert all(span.seconds >= 0.001 and span.parent for span in servers)
    spans = collector.of(traces["http"]["remembered"])
    posted = [*sent, "POST /api/v1/events", "process events", "work embed", "retrievable"]
    assert chain(spans, lambda span: span.name == "retrievable") == posted


def test_a_question_is_one_trace_through_the_queue_to_its_answer(traces, collector):
    for way in ("broker", "http"):
        print(f"\n{way}:\n{collector.tree(traces[way]['asked'])}")  # noqa: T201 – to be looked at
    asked = ["ask", "retrieval.retrieve"]
    spans = collector.of(traces["broker"]["asked"])
    assert chain(spans, lambda span: span.name == "search") == [*asked, "retrieval.retrieve", "search"]
    spans = collector.of(traces["http"]["asked"])
    assert chain(spans, lambda span: span.name == "search") == [
        *asked,
        "POST /api/v1/retrieve",
        "retrieval.retrieve",
        "search",
    ]


def test_events_of_one_message_share_its_trace_and_a_batch_of_several_links_to_each(traces, collector):
    linking = [span for span in collector.spans if len(span.links) > 1]
    for way in ("broker", "http"):
        names = {span.name for span in collector.of(traces[way]["many"])}
        assert names >= {"many", "send memory.observed", "process events", "retrievable"}
    for span in linking:
        assert span.name.startswith(("process", "work"))
        assert len(set(span.links)) == len(span.links)


def test_nobodys_words_no_key_and_no_question_leave_with_a_span(traces: Traces, collector: Collector) -> None:
    assert traces
    assert len(collector.raw) > 10_000
    for words in (SECRET_WORDS, "violet", "flowerpot", os.environ["JIYI_SECRET_KEY"]):
        assert words.encode() not in collector.raw
    # Not "jiyi_" alone: functions of the database are called so, and a statement that takes long is told by
    # its text.
    assert re.search(KEY.pattern.encode(), collector.raw) is None


def test_every_process_logs_one_object_a_line(traces: Traces, logs: Path) -> None:
    assert traces
    for process in PROCESSES:
        lines = (logs / f"{process}.log").read_text(encoding="utf-8").splitlines()
        told = [json.loads(line) for line in lines if not is_banner(line)]
        assert all({"time", "level", "logger", "process", "message"} <= line.keys() for line in told)
        assert {line["process"] for line in told} == {"all" if process == "retrieval" else process}


def is_banner(line: str) -> bool:
    """Celery draws one of what it is configured to be, for people at a terminal."""
    return not line.startswith("{")
