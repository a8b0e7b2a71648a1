"""Probes for the process manager (is the process up, can it answer) and metrics of the service for
Prometheus (``docs/operations.md``).

``/metrics`` queries every source when Prometheus scrapes. A source that does not answer in time is left out
and counted as a failure, so that the rest is still returned.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from flask import Blueprint, Flask, Response, request
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from engine.providers import health
from jiyi.protocol.wire.calls import OF_VALKEY
from jiyi.settings import get_settings
from models.db.bounded_reads import SourceUnavailable, attempt, from_database, reading, source
from models.db.scope import whole_service
from models.operations import health_checks
from models.operations.embedding_models import active_model
from models.operations.health_checks import ServerState
from models.operations.metrics import counter, gauge, of_broker, of_database, of_meters, of_signs
from models.queue.stream import hub
from web.accounts.api_keys import identify_by_key
from web.accounts.identity import need
from web.answers import json_answer

probes = Blueprint("probes", __name__)

LIVENESS = "/healthz"
#: Its answer. In production the HTTP server gives it, without a thread of the application.
UP = b'{"status": "up"}\n'


@probes.get(LIVENESS)
def healthz() -> Response:
    """This process is up; nothing else is asked."""
    return Response(UP, mimetype="application/json")


@probes.get("/readyz")
def readyz() -> Response:
    """Whether the service can do its work: the database answers, and Valkey and the broker take what is
    written to them.

    By server ``ok`` or what is the matter: a word (``away``, ``full``, ``disk_full``, …), a colon, a
    sentence. The providers' states stand beside them and change nothing: without them memories are stored,
    and found by words. Why one fails is for those who may sign in (the overview), not for everybody.
    """
    settings, states = get_settings(), health_checks.ask_servers()
    database = attempt(lambda: from_database(_embedder))
    providers = source("providers").begin(lambda: health.providers(settings, database.value or None))
    answers = states()
    ready = all(server.state == "ok" for server in answers.values())
    parts = {
        name: "ok" if server.state == "ok" else f"{server.state}: {_said(server)}"
        for name, server in answers.items()
    }
    parts |= {provider.name: provider.state for provider in attempt(providers).value or []}
    return json_answer({"status": "ready" if ready else "not ready", **parts}, 200 if ready else 503)


def _said(server: ServerState) -> str:
    """The problem of a server; its socket or host is not shown to strangers."""
    return OF_VALKEY["away"] if server.state == "away" else server.reason


def _embedder(connection: Connection) -> str:
    """The spec of the embedder in use; empty while no memory was ever embedded."""
    active = active_model(connection)
    return "" if active is None else active.spec


log = logging.getLogger("jiyi.web")

numbers = Blueprint("metrics", __name__)


Part = Callable[[], list[Metric]]


@numbers.get("/metrics")
def metrics() -> Response:
    identify_by_key()
    need("operator")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_collector)
    ProcessCollector(registry=registry)  # of this web process
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return Response(encode(registry), content_type=content_type)


def register(app: Flask) -> None:
    app.register_blueprint(probes)
    app.register_blueprint(numbers)


class Service(Collector):
    """Asks all parts at once, each for a bounded time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: Counter[str] = Counter()

    def collect(self) -> Iterator[Metric]:
        began = time.monotonic()
        with whole_service():
            states = health_checks.ask_servers()
            pending = {name: source(place).begin(part) for name, (place, part) in PARTS.items()}
        up: dict[str, bool] = {}
        for name, answer in pending.items():
            try:
                yield from answer()
                up[PARTS[name][0]] = up.get(PARTS[name][0], True)
            except Exception as error:  # whatever it is: one part must not take the others along
                if not isinstance(error, SourceUnavailable):
                    log.exception("the metrics of %s failed", name)
                up[PARTS[name][0]] = False
                with self._lock:
                    self._failures[name] += 1
        yield _up(up)
        yield _states(states())
        yield gauge(
            "jiyi_streams_open", "Live streams that this web process has open.", len(hub().watchers())
        )
        with self._lock:
            failures = dict(self._failures)
        yield counter(
            "jiyi_scrape_failures",
            "Parts that did not answer, since this web process began.",
            {name: failures.get(name, 0) for name in PARTS},
            "part",
        )
        yield gauge("jiyi_scrape_seconds", "How long this scrape took.", time.monotonic() - began)


def _up(up: dict[str, bool]) -> Metric:
    states = {name.lower(): float(answers) for name, answers in up.items()}
    return gauge("jiyi_up", "Whether it answered this scrape: database, broker, Valkey.", states, "source")


def _states(servers: dict[str, ServerState]) -> Metric:
    values = {(name, server.state): 1.0 for name, server in servers.items()}
    return gauge(
        "jiyi_server_state",
        "1 for the state that a server is in; no other state is reported.",
        values,
        "server",
        "state",
    )


PARTS: dict[str, tuple[str, Part]] = {
    "database": ("database", reading(of_database)),
    "broker": ("broker", of_broker),
    "signs": ("Valkey", of_signs),
    "meters": ("Valkey", of_meters),
}
_collector = Service()
