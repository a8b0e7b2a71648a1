"""For whoever starts and watches the process: is it up, can it answer?"""

from __future__ import annotations

from flask import Blueprint, Response
from sqlalchemy import Connection

from engine.providers import health
from jiyi.protocol.wire.calls import OF_VALKEY
from jiyi.settings import get_settings
from models.db.bounded_reads import attempt, from_database, source
from models.operations import servers
from models.operations.embedding_models import active_model
from web.answers import json_answer

blueprint = Blueprint("probes", __name__)

#: The answer of ``/healthz``. In production the HTTP server gives it, without a thread of the application.
UP = b'{"status": "up"}\n'


@blueprint.get("/healthz")
def healthz() -> Response:
    """This process is up; nothing else is asked."""
    return Response(UP, mimetype="application/json")


@blueprint.get("/readyz")
def readyz() -> Response:
    """Whether the service can do its work: the database answers, and Valkey and the broker take what is written to them.

    By server ``ok`` or what is the matter: a word (``away``, ``full``, ``disk_full``, …), a colon, a sentence. The providers'
    states stand beside them and change nothing: without them memories are stored, and found by words. Why one fails is for
    those who may sign in (the overview), not for everybody.
    """
    settings, states = get_settings(), servers.begin()
    database = attempt(lambda: from_database(_embedder))
    providers = source("providers").begin(lambda: health.providers(settings, database.value or None))
    answers = states()
    ready = all(server.state == "ok" for server in answers.values())
    parts = {name: "ok" if server.state == "ok" else f"{server.state}: {_said(server)}" for name, server in answers.items()}
    parts |= {provider.name: provider.state for provider in attempt(providers).value or []}
    return json_answer({"status": "ready" if ready else "not ready", **parts}, 200 if ready else 503)


def _said(server: servers.ServerState) -> str:
    """What is the matter. Why a server is away, which names its socket or host, is for those who may sign in."""
    return OF_VALKEY["away"] if server.state == "away" else server.reason


def _embedder(connection: Connection) -> str:
    """The spec of the embedder in use; empty while no memory was ever embedded."""
    active = active_model(connection)
    return "" if active is None else active.spec
