"""For whoever starts and watches the process: is it up, can it answer?"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response
from sqlalchemy import Connection

from jiyi.providers import health
from jiyi.settings import get_settings
from models.db.valkey import valkey
from models.operations.embedding_models import active_model
from web.answers import json_answer
from web.sources import Reading, attempt, from_database, source

blueprint = Blueprint("probes", __name__)


@blueprint.get("/healthz")
def healthz() -> Response:
    """This process is up; nothing else is asked."""
    return json_answer({"status": "up"})


@blueprint.get("/readyz")
def readyz() -> Response:
    """Whether pages can be filled: the database and Valkey answer.

    The providers' states stand beside it and change nothing: without them memories are stored, and found by words. Why one
    fails is for those who may sign in (the overview), not for everybody.
    """
    settings = get_settings()
    cache = source("Valkey").begin(lambda: bool(valkey().ping()))
    database = attempt(lambda: from_database(_embedder))
    providers = source("providers").begin(lambda: health.providers(settings, database.value or None))
    readings: dict[str, Reading[Any]] = {"database": database, "valkey": attempt(cache)}
    ready = all(reading.value is not None for reading in readings.values())
    parts = {name: "ok" if reading.value is not None else reading.reason for name, reading in readings.items()}
    parts |= {one.name: one.state for one in attempt(providers).value or []}
    return json_answer({"status": "ready" if ready else "not ready", **parts}, 200 if ready else 503)


def _embedder(connection: Connection) -> str:
    """The spec of the embedder in use; empty while no memory was ever embedded."""
    active = active_model(connection)
    return "" if active is None else active.spec
