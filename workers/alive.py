"""``python -m workers.alive [NAME]``: whether a process of this container lives, for health checks.

Without a name: the container's first process. Ends with 0 if that is not known: a Valkey that is away is no
reason to restart what waits for it.
"""

from __future__ import annotations

import http.client
import socket
import sys
from pathlib import Path

import redis

from jiyi.errors import JiyiError, words_of
from jiyi.protocol.wire.broker import INTAKE_QUEUE
from jiyi.settings import Settings, get_settings
from models.operations import worker_liveness
from models.queue.broker_queues import redis_address

#: Modules that are processes of their own.
INTAKE, WEB = "workers.intake", "workers.web.serve"
#: The command line of a container's first process.
FIRST = Path("/proc/1/cmdline")
#: Seconds without a sign of life after which a process is taken for stuck: a worker says so every second,
#: beat with each canary.
SILENT_SECONDS = 120.0
#: Seconds that the web has for an answer.
ANSWER_SECONDS = 5


def problem(name: str, settings: Settings) -> str:
    """What is the matter; empty if nothing is known to be."""
    if name == "web":
        return _web(settings)
    if name == "beat":
        age = worker_liveness.beat_age()
        alive = age is not None and age < SILENT_SECONDS
        return "" if alive else "beat has looked at nothing for two minutes"
    if name == "intake":
        address = redis_address(settings.need("broker_url"))
        if address is None:  # another broker's, which ends silent connections
            return ""
        ages = worker_liveness.intake_ages(address, INTAKE_QUEUE, settings.intake_redelivery_seconds)
        return "" if ages else "no intake lives"
    here = [worker for worker in worker_liveness.workers() if worker.name == f"{name}@{socket.gethostname()}"]
    return "" if any(worker.counts for worker in here) else f"the worker {name} of this host is silent"


def _web(settings: Settings) -> str:
    # Asked here.
    host = "127.0.0.1" if settings.web_host in ("0.0.0.0", "::") else settings.web_host  # noqa: S104
    connection = http.client.HTTPConnection(host, settings.web_port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"the web does not answer: {words_of(error)}"
    finally:
        connection.close()
    return "" if status == http.client.OK else f"the web answers {status}"


def first_process(command: bytes) -> str:
    """The name of the process with this command line (parts end with zeros); empty: none of ours."""
    parts = command.decode("utf-8", "replace").split("\0")
    hosts = [part for part in parts if part.startswith("--hostname=")]
    if hosts:
        return hosts[0].removeprefix("--hostname=").partition("@")[0]
    modules = {INTAKE: "intake", WEB: "web"}
    return next((modules[part] for part in parts if part in modules), "beat" if "beat" in parts else "")


def main(arguments: list[str]) -> int:
    if len(arguments) > 1:
        sys.stderr.write("usage: python -m workers.alive [NAME]\n")
        return 2
    name = arguments[0] if arguments else first_process(FIRST.read_bytes())
    if not name:  # a migration, a backup: it ends on its own
        return 0
    try:
        message = problem(name, get_settings())
    except (redis.RedisError, JiyiError, OSError) as error:
        sys.stderr.write(f"not known: {error}\n")
        return 0
    if message:
        sys.stderr.write(f"{message}\n")
    return 1 if message else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
