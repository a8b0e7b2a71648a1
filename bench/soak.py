"""Hours in which nothing may grow but the memory itself: the service at half of its capacity, looked at again
and again.

    python -m bench.soak [--minutes N] [--rate EVENTS] [--plot FILE] [--json]

Events come at a steady rate (``--rate``, a second), questions with them. Measured every few seconds: resident
memory of each process, the lag of the intake, pending work, connections to PostgreSQL, keys in Valkey and
their bytes, rows and bytes of the tables. For each a line is fitted through the second half of the run;
``grows`` names those whose slope is more than noise: more than ``SIGMAS`` of its own standard errors, and
more than ``LEAST_SHARE`` of the level an hour. What is meant to grow is told and not judged: the tables; the
indexes that the retrieval and the reflection worker keep in memory, up to ``JIYI_INDEX_MAX_BYTES`` each,
which are taken off the memory of the process that has them; and the meters, a key a minute for 25 hours
(1,500 keys, some 8 MB), which are taken off Valkey's. Twenty minutes are the least that says something: what
is kept for five minutes or for a thousand questions is full by the middle.
Memory is what a process has for itself: pages that PostgreSQL's processes share would be counted once for
each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import text

from bench.support.service import machine
from bench.support.storm.lives import AGENTS
from bench.support.storm.load import publish_until_accepted
from bench.support.storm.programs import programs
from bench.support.trends import Line, fit, plot
from jiyi import Client
from jiyi.errors import JiyiError
from jiyi.protocol.events import Event, build
from jiyi.protocol.wire.broker import INTAKE_QUEUE
from models.db import valkey_keys
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.db.valkey import valkey
from models.queue import broker_queues
from models.retrieval import index_cache
from workers import ephemeral
from workers.procfile import commands
from workers.supervision.supervise import Supervisor

#: Half of what one embedding worker of this machine does with the model in its wheel.
RATE = 20.0
MESSAGE = 10
LOOK_SECONDS = 5.0
SIGMAS, LEAST_SHARE = 4.0, 0.05
#: Told, not judged: they hold memories, and runs of jobs and minutes of meters until those are pruned.
STORED = "stored "
GROUP = "soak"
#: 11 × 13 × 17 × 19 × 7 texts, one after the other.
WORDS = [
    "Klaus Maria Isabella 林岚 王强 Tom Ayesha 小雨 Giorgio Hailey Eddy".split(),
    "reads writes sees finds loses 买了 卖了 画着 repairs borrows 想起 forgets washes".split(),
    "book letter boat 自行车 钥匙 lamp 茶杯 coat map 收音机 basket 雨伞 piano table 相机".split(),
    "at home|in the park|on the bridge|在学校|在车站|at the café|in the library|by the river|在办公室|in the"
    " garden|on the train|在市场|at the beach|in the kitchen|在楼上|near the church|at the office|在海边|in"
    " town".split("|"),
    "with a friend|alone|和妹妹|in the rain|before breakfast|很晚的时候|once more".split("|"),
]


def soak(minutes: float, rate: float, plotted: Path | None) -> dict[str, Any]:
    """Run it; the figures."""
    settings = {"web_port": str(ephemeral.free_port())}
    series: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with (
        ephemeral.folder("jiyi-soak-") as folder,
        ephemeral.database(folder, **settings) as stack,
        whole_service(),
    ):
        supervisor = Supervisor(commands(), dict(os.environ), quiet=True, stack=stack)
        supervisor.start()
        stop = threading.Event()
        threads = [threading.Thread(target=work, args=(stop, rate)) for work in (_publish, _ask)]
        try:
            ephemeral.await_answers()
            for thread in threads:
                thread.start()
            began = time.monotonic()
            while (spent := time.monotonic() - began) < minutes * 60:
                for name, value in _look().items():
                    series[name].append((spent, value))
                time.sleep(LOOK_SECONDS)
        finally:
            stop.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            supervisor.stop()
            supervisor.wait()
    lines = {
        name: fit([point for point in points if point[0] >= minutes * 30])
        for name, points in sorted(series.items())
    }
    if plotted is not None:
        plotted.write_text(plot(series), encoding="utf-8")
    grows = [name for name, line in lines.items() if not name.startswith(STORED) and _grows(line)]
    return {
        "machine": machine(),
        "minutes": minutes,
        "rate": rate,
        "grows": grows,
        "series": {n: line.told() for n, line in lines.items()},
    }


def _grows(line: Line) -> bool:
    return line.slope > SIGMAS * line.error and line.slope > LEAST_SHARE * max(line.level, 1.0)


def _publish(stop: threading.Event, rate: float) -> None:
    position = 0
    while not stop.wait(MESSAGE / rate):
        publish_until_accepted(GROUP, [_event(n) for n in range(position, position + MESSAGE)])
        position += MESSAGE


def _event(position: int) -> Event:
    """Always another text, of words that come again: of words that are new each time, memory of words would
    fill up for hours.
    """
    said, rest = [], position
    for words in WORDS:
        rest, place = divmod(rest, len(words))
        said.append(words[place])
    payload = {"description": " ".join(said), "poignancy": 1 + position % 4, "keywords": said[:2]}
    return build(
        {"type": "memory.observed", "group_id": GROUP, "agent_id": AGENTS[position % 3], "payload": payload}
    )


def _ask(stop: threading.Event, rate: float) -> None:
    with Client(GROUP) as client:
        while not stop.wait(10 / rate):
            try:
                client.retrieve("klaus", f"what about chapter {int(time.time()) % 7}?")
            except JiyiError:
                continue


def _own_bytes(process: psutil.Process) -> int:
    memory = process.memory_info()
    return int(memory.rss - memory.shared)


def _look() -> dict[str, float]:
    found: dict[str, float] = {}
    indexes = {
        worker.rpartition(":")[2]: report["bytes"] / 1e6 for worker, report in index_cache.reports().items()
    }
    for name, process in programs().items():
        try:
            everything = [process, *process.children(recursive=True)]
            found[f"MB of {name}"] = sum(_own_bytes(one) for one in everything) / 1e6 - indexes.get(
                str(process.pid), 0.0
            )
        except psutil.NoSuchProcess:
            continue
    found[f"{STORED}MB of indexes"] = sum(indexes.values())
    with unit_of_work() as connection:
        for name, statement in _COUNTS.items():
            found[name] = float(connection.execute(text(statement)).scalar_one() or 0)
    found["messages that wait"] = float(broker_queues.waiting(INTAKE_QUEUE) or 0)
    minutes = [
        key
        for key in valkey().scan_iter(valkey_keys.meters("*"), count=1_000)
        if key != valkey_keys.METERS_TOTAL.encode()
    ]
    metered = sum(valkey().memory_usage(key) or 0 for key in minutes) / 1e6
    found[f"{STORED}minutes of meters"] = float(len(minutes))
    found["keys of Valkey"] = float(valkey().dbsize()) - len(minutes)
    found["MB of Valkey's data"] = float(valkey().info("memory")["used_memory"]) / 1e6 - metered
    if "MB of valkey" in found:
        found["MB of valkey"] -= metered
    return found


_COUNTS = {
    "connections": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()",
    "work overdue": "SELECT count(*) FROM pending_work WHERE due_at < now() - interval '10 s'",
    "lag in seconds": "SELECT extract(epoch FROM now() - min(created_at)) FROM pending_work",
    f"{STORED}rows of job_ticks": "SELECT count(*) FROM job_ticks",
    "dead letters": "SELECT count(*) FROM dead_letters",
    f"{STORED}memories": "SELECT count(*) FROM memory_nodes",
    f"{STORED}MB of tables": "SELECT pg_database_size(current_database()) / 1e6",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=RATE, help="events a second")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    if options.plot is not None and options.plot.suffix != ".svg":
        parser.error(f"--plot {options.plot}: the picture is an SVG: name a file that ends in .svg")
    figures = soak(options.minutes, options.rate, options.plot)
    print(json.dumps(figures, ensure_ascii=False, indent=None if options.json else 2))
    return 1 if figures["grows"] else 0


if __name__ == "__main__":
    sys.exit(main())
