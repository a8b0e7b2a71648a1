"""jiyi.tracing: parents, links and marks, with an exporter in memory; and that a process which is not to be
traced loads nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from engine.providers import calls
from engine.providers.embedders import HashingEmbedder
from jiyi import tracing
from jiyi.errors import NoAnswer, SettingsError
from jiyi.protocol.wire.broker import PUBLISHED_AT, stamp
from models.db.spans import _described
from workers import tracing as service

ROOT = Path(__file__).resolve().parents[2]
FIRST, SECOND, UNSAMPLED = (
    f"00-{number:032x}-{number:016x}-{flags}" for number, flags in ((1, "01"), (2, "01"), (3, "00"))
)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(api, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def named(exporter: InMemorySpanExporter, name: str) -> Any:
    (span,) = [span for span in exporter.get_finished_spans() if span.name == name]
    return span


def test_a_message_carries_the_context_of_what_sends_it_and_what_it_causes_is_below_that(
    spans: InMemorySpanExporter,
) -> None:
    assert set(stamp()) == {PUBLISHED_AT}
    with tracing.span("send", "producer"):
        headers = stamp()
    with (
        tracing.span("process", "consumer", {"messaging.system": "x"}, within=tracing.received(headers)),
        tracing.part("statement"),
    ):
        pass
    send, process, statement = [named(spans, name) for name in ("send", "process", "statement")]
    assert process.parent.span_id == send.context.span_id
    assert statement.parent.span_id == process.context.span_id
    assert {span.context.trace_id for span in (send, process, statement)} == {send.context.trace_id}
    assert process.attributes["messaging.system"] == "x"


def test_a_header_that_is_no_traceparent_is_ignored(spans: InMemorySpanExporter) -> None:
    no_trace, upper = f"00-{0:032x}-{1:016x}-01", FIRST.upper().replace("0", "A")
    for header in ("", "00-0-0-01", no_trace, "x" * 10_000, 7, None, upper):
        assert tracing.received({"traceparent": header}) == ()
    with tracing.span("process", within=()):
        pass
    assert named(spans, "process").parent is None


def test_a_batch_of_several_traces_links_to_each_and_marks_what_came_of_it_in_each(
    spans: InMemorySpanExporter,
) -> None:
    with tracing.batch("process", {"a": FIRST, "b": SECOND, "c": SECOND, "d": UNSAMPLED}, "stored"):
        assert tracing.carried() == {"a": FIRST, "b": SECOND, "c": SECOND, "d": UNSAMPLED}
    assert tracing.carried() == {}
    process = named(spans, "process")
    assert process.parent is None
    assert [link.context.trace_id for link in process.links] == [1, 2]
    marks = [span for span in spans.get_finished_spans() if span.name == "stored"]
    assert [(mark.context.trace_id, mark.parent.span_id) for mark in marks] == [(1, 1), (2, 2)]
    assert all(mark.links[0].context.span_id == process.context.span_id for mark in marks)


def test_a_batch_of_one_trace_is_a_part_of_it_and_what_is_still_to_do_is_below_the_batch(
    spans: InMemorySpanExporter,
) -> None:
    with tracing.batch("process", {"a": FIRST}, "stored"):
        assert tracing.carried() == {"a": tracing.current()}
        tracing.mark("retrievable", [FIRST])
    process, mark = named(spans, "process"), named(spans, "retrievable")
    assert (process.context.trace_id, process.parent.span_id) == (1, 1)
    assert mark.parent.span_id == process.context.span_id
    assert len(spans.get_finished_spans()) == 2


def test_what_an_untraced_cause_sets_off_is_not_traced_and_a_part_alone_is_not(
    spans: InMemorySpanExporter,
) -> None:
    with tracing.batch("process", {"a": UNSAMPLED}, "stored"), tracing.part("statement"):
        assert (tracing.current() or "").endswith("-00")
    with tracing.part("poll"):
        pass
    assert spans.get_finished_spans() == ()


def test_a_failure_has_its_code_and_never_its_words(spans: InMemorySpanExporter) -> None:
    for number, error in enumerate((NoAnswer("about Klaus"), ValueError("about Klaus"))):
        with pytest.raises(type(error)), tracing.span(f"ask {number}"):
            raise error
    assert named(spans, "ask 0").attributes["error.type"] == "no_answer"
    assert named(spans, "ask 1").attributes["error.type"] == "ValueError"
    assert not any("Klaus" in span.to_json() for span in spans.get_finished_spans())


def test_what_takes_no_time_has_no_span_of_its_own_unless_it_fails(spans: InMemorySpanExporter) -> None:
    with tracing.span("work"):
        with pytest.raises(ValueError, match="Klaus"), tracing.leaf("refused", {}):
            raise ValueError("about Klaus")
        with tracing.leaf("slow", {"db.system.name": "valkey"}):
            time.sleep(2 * tracing.LEAST_NS / 1e9)
        for _ in range(9):  # one of them may be slow on a busy machine
            with tracing.leaf("quick", {}):
                pass
    names = Counter(span.name for span in spans.get_finished_spans())
    assert names.pop("quick", 0) < 9
    assert names == {"refused": 1, "slow": 1, "work": 1}
    assert named(spans, "slow").parent.span_id == named(spans, "work").context.span_id
    assert named(spans, "refused").attributes["error.type"] == "ValueError"


def test_other_threads_can_be_a_part_of_it(spans: InMemorySpanExporter) -> None:
    def work() -> None:
        with tracing.part("in a thread"):
            pass

    with tracing.span("ask"):
        thread = threading.Thread(target=tracing.bound(work))
        thread.start()
        thread.join()
    assert named(spans, "in a thread").parent.span_id == named(spans, "ask").context.span_id


def test_calls_of_models_have_the_names_of_the_conventions_and_hold_no_text(
    spans: InMemorySpanExporter,
) -> None:
    heard: list[calls.ModelCall] = []
    calls.on_call(heard.append)
    try:
        request = {
            "messages": [{"role": "user", "content": "about Klaus"}],
            "max_tokens": 99,
            "temperature": 0.0,
        }
        usage = {"prompt_tokens": 7, "completion_tokens": 2}
        with tracing.span("work"):
            HashingEmbedder(8).passages(["about Klaus"])
            with calls.calling("chat", "deepseek", "deepseek-chat", request) as call:
                call.answered({"model": "deepseek-v3", "usage": usage, "choices": ["Klaus"]})
    finally:
        calls.on_call(None)
    chat = named(spans, "chat deepseek-chat")
    attributes = {
        "operation.name": "chat",
        "provider.name": "deepseek",
        "request.model": "deepseek-chat",
        "request.max_tokens": 99,
        "request.temperature": 0.0,
        "response.model": "deepseek-v3",
        "usage.input_tokens": 7,
        "usage.output_tokens": 2,
    }
    assert dict(chat.attributes) == {f"gen_ai.{name}": value for name, value in attributes.items()}
    assert chat.kind is api.SpanKind.CLIENT
    assert named(spans, "embeddings hashing-8").attributes["gen_ai.operation.name"] == "embeddings"
    noted = [(call.operation, call.input_tokens, call.error) for call in heard]
    assert noted == [("embeddings", 0, ""), ("chat", 7, "")]
    assert not any("Klaus" in span.to_json() for span in spans.get_finished_spans())


def test_statements_are_named_by_verb_and_table() -> None:
    assert _described("SELECT *\n  FROM  agents WHERE x = %(x)s")[0] == "SELECT agents"
    assert _described("UPDATE memory_nodes SET a = 1")[0] == "UPDATE memory_nodes"
    assert _described("SELECT set_config('a', 'b', true)")[0] == "SELECT"


def test_a_process_that_is_not_to_be_traced_loads_nothing_to_trace_with() -> None:
    """redis-py loads the package's metrics wherever it is installed."""
    code = """
import os, sys
from workers import tracing
address = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
for settings in ({}, {**address, "OTEL_SDK_DISABLED": "true"}, {**address, "OTEL_TRACES_EXPORTER": "none"}):
    os.environ.update(settings)
    tracing.install("web")
    os.environ.pop("OTEL_SDK_DISABLED", None)
import jiyi.client.steps, models.db.connection, web
from jiyi.tracing import span, headers
with span("x"):
    assert headers() == {}
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk.trace", "opentelemetry.exporter"))])
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stdout.strip() == "[]"


def test_what_cannot_be_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    for name, value, known in (
        ("OTEL_TRACES_EXPORTER", "zipkin", "is not known here; otlp, console or none"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "is not supported here; http/protobuf"),
    ):
        with monkeypatch.context() as wrong:
            wrong.setenv(name, value)
            with pytest.raises(SettingsError, match=f"^{name}: '{value}' {known}"):
                service.install("web")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)  # not installed
    sentence = r"^OTEL_EXPORTER_OTLP_ENDPOINT asks for traces.*pip install .*\[otel\]"
    with pytest.raises(SettingsError, match=sentence):
        service.install("web")
