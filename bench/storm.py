"""A bad day in minutes: everything is killed, paused, filled up and cut off while the service works; then
nothing may be different.

    python -m bench.storm [--minutes N] [--faults N] [--seed S] [--broker amqp] [--at-once N] [--pause S]
        [--heavy N] [--append FILE] [--json]

Producers publish events with known ids over the broker and over HTTP; others retrieve, reflect, fill working
memory and erase. Meanwhile one fault after the other, chosen by the seed: processes and both servers are
killed, stopped, paused; Valkey loses its bindings, its memory, its disk; PostgreSQL its connections. The
processes and servers are started again by the service's own supervision. With ``--broker amqp`` the broker is
a RabbitMQ, which is killed and started again, too. In the end the memory is compared with that of the same
events in a group of their own, to which nothing happened. With ``--at-once N`` up to N faults, each of
another target, strike together; with ``--append FILE`` the figures of several goes add up in a file. A fault
counts if there was something to strike. The next ones come when the service has recovered from all of these.
What limits their number is the computing of programs that start again, two to three seconds each, and of a
PostgreSQL that recovers: ``--heavy N`` has at most so many of these a minute (those of one go together), the
others cut, hang, pause and fill up for ``--pause`` seconds.

* **lost**: events that were accepted and are not stored. **doubled**: memories that are there twice.
* **different**: rows of memories, vectors, strengths, counters, thoughts, pending work and dead letters that
  are not the same.
* **deaf**: queues whose canaries have not come back.
* **heard_again_s**: seconds after the last fault until every queue's canary has come back; one is sent every
  ten seconds.
* **recovery_s**: seconds from a fault's end until an event is published and stored and a question answered,
  by kind of fault.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.support.rabbitmq import RabbitMQ, why_absent
from bench.support.storm.compare import SETTLE_SECONDS, compare, deaf
from bench.support.storm.faults import DEEDS, PAUSE_SECONDS, Fault, Faults
from bench.support.storm.lives import event, settle
from bench.support.storm.load import Load, publish_until_accepted
from bench.support.storm.programs import named
from engine.reflection import MAX_STATEMENTS
from jiyi import Client
from jiyi.errors import JiyiError
from models.db.scope import whole_service
from workers import ephemeral
from workers.procfile import commands
from workers.supervision.supervise import Supervisor

#: Seconds that the service gets to recover from one fault.
RECOVERY_SECONDS = 90.0
#: Seconds that one sign of life may take: shorter than a worker needs to start, so that the next one meets
#: the new worker.
PROBE_SECONDS = 2.0
#: Events of one message when it is calm again.
MESSAGE = 100
#: Events that come last, to both groups in order: reflections start from the memories that arrived last, two
#: hundred of an agent (``engine.reflection.MAX_STATEMENTS``), and which these are depends on what a fault
#: held up. Of the agent that has most chats and thoughts, half are not counted: chats never, and thoughts not
#: when their month is over, as it is by the time of the last reading.
LAST = 6 * MAX_STATEMENTS
#: Faults that took longest to recover from, which are told.
SLOWEST = 8
#: Figures that add up over several goes; of others a sum says nothing.
SUMMED = ("faults", "events", "lost", "doubled", "different", "deaf")
SETTINGS = {
    "embedder": "hashing",
    "agent_defaults": "importance_trigger_max=1000000",
    "work_lease_seconds": "5",
}


def storm(
    minutes: float,
    seed: int,
    broker: str = "redis",
    at_once: int = 1,
    pause: float = PAUSE_SECONDS,
    heavy: int | None = None,
    least: int = 0,
) -> dict[str, Any]:
    """Run it with the embedded Valkey as broker, or with ``broker="amqp"`` over Debian's RabbitMQ; the
    figures.

    It lasts so many minutes, and longer until ``least`` faults have struck.
    """
    settings = {**SETTINGS, "web_port": str(ephemeral.free_port())}
    more: dict[str, Fault] = {}
    with ephemeral.folder("jiyi-storm-") as folder, ExitStack() as started:
        stack = started.enter_context(ephemeral.database(folder, **settings))
        if broker == "amqp":
            rabbit = started.enter_context(_rabbitmq())
            started.enter_context(ephemeral.environment(broker_url=rabbit.url))
            more["restart RabbitMQ"] = _always(rabbit.restart)
        started.enter_context(whole_service())
        supervisor = Supervisor(named(commands()), dict(os.environ), quiet=True, stack=stack)
        gave_up: list[str] = []
        supervisor.start()
        stack.watch(lambda _line: None, gave_up.append)
        try:
            ephemeral.await_answers()
            faults = Faults(stack, list(commands()), more, pause=pause, most_heavy=heavy)
            figures = _weather(
                faults, minutes, seed, at_once, least, lambda: not (gave_up or supervisor.ending)
            )
        finally:
            ended_early = supervisor.ending
            supervisor.stop()
            supervisor.wait()
    return {
        "seed": seed,
        "minutes": minutes,
        "broker": broker,
        **figures,
        "gave_up": [*gave_up, *(["a process"] if ended_early else [])],
    }


def _always(deed: Callable[[], None]) -> Fault:
    def fault() -> bool:
        deed()
        return True

    return fault


@contextmanager
def _rabbitmq() -> Iterator[RabbitMQ]:
    if reason := why_absent():
        sys.exit(reason)
    with ephemeral.folder("jiyi-rabbitmq-") as folder:
        server = RabbitMQ(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _weather(
    faults: Faults, minutes: float, seed: int, at_once: int, least: int, alive: Callable[[], bool]
) -> dict[str, Any]:
    choose = random.Random(seed)
    took: list[tuple[float, str]] = []
    load = Load("storm", alive)
    load.start()
    end = time.monotonic() + minutes * 60
    while (time.monotonic() < end or len(took) < least) and alive():
        names = several(choose, [fault for fault in faults.all if faults.may(fault)], at_once)
        with ThreadPoolExecutor(at_once) as strike:
            struck = list(strike.map(faults.strike, names))
        recovered = _recovered(alive)
        hit = [name for name, was_there in zip(names, struck, strict=True) if was_there]
        took += [(recovered, name) for name in hit]
        print(f"{len(took)} faults; {recovered:.1f} s after {', '.join(hit)}", file=sys.stderr, flush=True)
    events = load.stop()
    silent_for = _until_heard()
    if not alive():
        return dict.fromkeys(("faults", "events", "lost", "doubled", "different", "deaf"), -1)
    settle("storm", events, SETTLE_SECONDS)
    _publish("storm", range(events, events + LAST))
    _publish("calm", range(events + LAST))  # the same to a group to which nothing happens
    figures = compare(events + LAST)
    recovery: defaultdict[str, list[float]] = defaultdict(list)
    for seconds, name in took:
        recovery[_kind(name)].append(seconds)
    return {
        "faults": len(took),
        **figures,
        "heard_again_s": round(silent_for, 1),
        "not_recovered": sum(seconds >= RECOVERY_SECONDS for seconds, _ in took),
        "recovery_s": {kind: _spread(times) for kind, times in recovery.items()},
        "slowest": [f"{name}: {seconds:.1f}" for seconds, name in sorted(took, reverse=True)[:SLOWEST]],
        "load": load.counts,
    }


def _publish(group: str, positions: range) -> None:
    for first in positions[::MESSAGE]:
        publish_until_accepted(
            group, [event(group, position) for position in range(first, min(first + MESSAGE, positions.stop))]
        )


def several(choose: random.Random, faults: Sequence[str], at_once: int) -> list[str]:
    """Up to ``at_once`` of the faults, each of another target: two of one could crash it more often than its
    supervisor bears.
    """
    by_target = {fault.partition(" ")[2]: fault for fault in choose.sample(faults, min(at_once, len(faults)))}
    return list(by_target.values())


def in_all(lines: str) -> dict[str, int]:
    """What several goes came to, each a line of JSON. One that could not be compared counts in ``gave_up``
    alone.
    """
    goes = [json.loads(line) for line in lines.splitlines() if line.strip()]
    told = {name: sum(go[name] for go in goes if go[name] > 0) for name in SUMMED}
    return {"goes": len(goes), **told, "gave_up": sum(bool(go["gave_up"]) for go in goes)}


def _kind(fault: str) -> str:
    """``kill`` of ``kill valkey``; what is no deed upon a target is a kind of its own."""
    deed = fault.partition(" ")[0]
    return deed if deed in DEEDS else fault


def _recovered(alive: Callable[[], bool]) -> float:
    """Seconds until an event is stored and a question is answered again; the most if they are not."""
    began = time.monotonic()
    while (spent := time.monotonic() - began) < RECOVERY_SECONDS and alive():
        try:
            with Client("probe") as client:
                client.observe("probe", f"a sign of life at {time.time()}", wait=True, timeout=PROBE_SECONDS)
                client.retrieve("probe", "a sign of life", timeout=PROBE_SECONDS)
        except JiyiError:
            time.sleep(0.1)
        else:
            return spent
    return RECOVERY_SECONDS


def _until_heard() -> float:
    """Seconds until every queue's canary has come back after the last fault."""
    began = time.monotonic()
    deaf()
    return time.monotonic() - began


def _spread(times: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(times), 1), "most": round(max(times), 1), "count": len(times)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument(
        "--faults", type=int, default=0, help="at least so many, however long a slow machine takes"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--broker", choices=("redis", "amqp"), default="redis")
    parser.add_argument("--at-once", type=int, default=1, help="faults that strike together")
    parser.add_argument(
        "--pause",
        type=float,
        default=PAUSE_SECONDS,
        help="seconds that what is paused, full or exhausted stays so",
    )
    parser.add_argument(
        "--heavy",
        type=int,
        help="programs ended and servers crashed a minute, at most; other faults as dense as can be",
    )
    parser.add_argument(
        "--append",
        type=Path,
        help="a file of JSON lines, to which the figures are added; tells what all in it come to",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    if options.at_once < 1:
        parser.error(f"--at-once {options.at_once}: at least 1")
    figures = storm(
        options.minutes,
        options.seed,
        options.broker,
        options.at_once,
        options.pause,
        options.heavy,
        options.faults,
    )
    if options.append is not None:
        with options.append.open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures, ensure_ascii=False) + "\n")
        figures["in_all"] = in_all(options.append.read_text(encoding="utf-8"))
    print(json.dumps(figures, ensure_ascii=False, indent=None if options.json else 2))
    wrong = (
        figures["lost"] or figures["doubled"] or figures["different"] or figures["deaf"] or figures["gave_up"]
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
