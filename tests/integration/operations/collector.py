"""A collector of traces: it receives spans over OTLP/HTTP, as protobuf, and shows a trace as a tree."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    trace: str
    id: str
    parent: str
    process: str
    name: str
    began: int
    seconds: float
    attributes: dict[str, Any]
    #: Traces of its links.
    links: tuple[str, ...]


@dataclass
class Collector:
    endpoint: str = ""
    spans: list[Span] = field(default_factory=list)
    #: All that was received, as it came.
    raw: bytearray = field(default_factory=bytearray)

    def receive(self, body: bytes) -> None:
        self.raw += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            process = {pair.key: pair.value.string_value for pair in resource.resource.attributes}[
                "service.name"
            ]
            self.spans.extend(
                span_of(span, process) for scope in resource.scope_spans for span in scope.spans
            )

    def of(self, traceparent: str) -> list[Span]:
        return [span for span in list(self.spans) if span.trace == traceparent[3:35]]

    def tree(self, traceparent: str) -> str:
        """A trace as people read it: each span below its parent, with its process and how long it took."""
        spans = sorted(self.of(traceparent), key=lambda span: span.began)
        ids = {span.id for span in spans}

        def below(parent: str, indent: str) -> Iterator[str]:
            for span in [
                span for span in spans if span.parent == parent or (not parent and span.parent not in ids)
            ]:
                yield f"{indent}{span.name}  [{span.process}] {1_000 * span.seconds:.1f} ms"
                yield from below(span.id, indent + "  ")

        return "\n".join(below("", ""))


def span_of(span: Any, process: str) -> Span:
    values = {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}
    seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    links = tuple(link.trace_id.hex() for link in span.links)
    return Span(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        process,
        span.name,
        span.start_time_unix_nano,
        seconds,
        values,
        links,
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.receive(
                gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            )
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
