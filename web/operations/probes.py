"""For whoever starts and watches the process: is it up, can it answer?"""

from __future__ import annotations

from flask import Blueprint, Response

from jiyi.settings import get_settings
from models.accounts import reads
from models.db.valkey import valkey
from web.answers import json_answer
from web.sources import attempt, from_database, source

blueprint = Blueprint("probes", __name__)


@blueprint.get("/healthz")
def healthz() -> Response:
    """This process is up; nothing else is asked."""
    return json_answer({"status": "up"})


@blueprint.get("/readyz")
def readyz() -> Response:
    """Whether pages can be filled: the database and Valkey answer."""
    get_settings()
    cache = source("Valkey").begin(lambda: bool(valkey().ping()))
    database = attempt(lambda: from_database(lambda connection: reads.groups(connection) is not None))
    readings = {"database": database, "valkey": attempt(cache)}
    ready = all(reading.value is not None for reading in readings.values())
    parts = {name: "ok" if reading.value is not None else reading.reason for name, reading in readings.items()}
    return json_answer({"status": "ready" if ready else "not ready", **parts}, 200 if ready else 503)
