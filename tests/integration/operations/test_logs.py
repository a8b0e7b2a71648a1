"""What processes log as JSON, with the ids of traces; and what reaches an error tracker."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.operations.collector import collecting

SLOW = 1.0  # s: the process has ended its work before its report is taken
CHECKOUT = Path(__file__).resolve().parents[3]
FAIL = """
import logging
from jiyi import tracing
from workers import logs, tracing as setup
logs.install("web")
setup.install("web")
log = logging.getLogger("jiyi.test")
with tracing.span("ask"):
    try:
        try:
            {}["the words of a memory"]
        except KeyError as error:
            raise ValueError("the words of a memory") from error
    except ValueError:
        log.exception("it failed")
"""


@pytest.fixture
def tracker() -> Iterator[tuple[str, list[Any]]]:
    """The address of an error tracker, and what it has received."""
    reports: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            time.sleep(SLOW)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            envelope = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            reports.extend(json.loads(line) for line in envelope.splitlines() if b'"exception"' in line)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{'k' * 32}@127.0.0.1:{server.server_port}/1", reports
    server.shutdown()
    server.server_close()


def run(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "SENTRY_"))
    }
    command = [sys.executable, "-c", FAIL]
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_an_error_is_one_line_and_one_report_with_the_ids_of_its_trace_and_without_its_words(tracker):
    address, reports = tracker
    with collecting() as collector:
        done = run(JIYI_LOG_FORMAT="json", SENTRY_DSN=address, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint)
    assert done.returncode == 0, done.stderr
    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    (span,) = collector.spans
    (report,) = reports
    assert (line["message"], line["trace_id"], line["span_id"]) == ("it failed", span.trace, span.id)
    assert "ValueError" in line["error"]
    assert report["contexts"]["trace"]["trace_id"] == span.trace
    assert [told["type"] for told in report["exception"]["values"]] == ["KeyError", "ValueError"]
    assert report["server_name"] == "web"
    assert "the words of a memory" not in done.stderr
    assert "the words of a memory" not in json.dumps(
        [{**told, "stacktrace": None} for told in report["exception"]["values"]]
    )
    assert not any(
        "vars" in frame for told in report["exception"]["values"] for frame in told["stacktrace"]["frames"]
    )


def test_an_address_of_a_tracker_that_is_none_is_said_in_one_sentence() -> None:
    done = run(SENTRY_DSN="nonsense")
    assert done.returncode
    assert "SettingsError: SENTRY_DSN: " in done.stderr
