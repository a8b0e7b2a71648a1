"""How soon the admin's pages begin to come, of a group with much in it.

    python -m bench.pages [--json] [--memories 100000] [--agents 1000] [--visits 20]

A service of its own with one group: half of the memories are of one agent, the rest are spread over the
others; each came as an event. Somebody who may everything signs in and follows links, from the overview on,
to one page of each kind; then each is asked for so often.

* **p50**, **p95**: milliseconds until the first byte of a page. **slowest**: the pages with the highest p95.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
import numpy as np
from rich.console import Console
from rich.table import Table
from sqlalchemy import text as text_of
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from bench.latency import DIMENSIONS, WORDS_A_TEXT, sentences
from bench.support.ranking import quantile
from bench.support.service import machine, running
from engine.providers.embedders import embedder
from jiyi import Client
from jiyi.protocol import events
from jiyi.protocol.accounts import AddPerson, hash_password
from models.accounts.actions import add_person
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import as_owner
from models.memory.inbox import store
from web import create_app
from workers import ephemeral

GROUP, LARGEST, PERSON, PASSWORD = "bench", "klaus", "operator", "correct horse battery"
#: Memories of a transaction.
BATCH = 1_000
SEED = 20261128
#: Seconds that anything may take.
PATIENCE = 120.0
#: Milliseconds in which a page should begin to come (p95).
GOAL_MS = 150.0
#: Pages that are told by name.
SLOWEST = 10
#: Of the pages' names: files, parts that other pages ask for, and what is nobody's page.
NO_PAGE = re.compile(r"json|\.rows|live|export|static|preferences|signin|sign_out|series")
_LINK = re.compile(r'<a\b[^>]*\bhref="([^"]+)"')
_TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')


def fill(memories: int, agents: int) -> None:
    """Store the memories as events, with vectors of no meaning."""
    random = np.random.default_rng(SEED)
    model, size = embedder().model, embedder().dimensions or DIMENSIONS
    for start in range(0, memories, BATCH):
        count = min(BATCH, memories - start)
        vectors = random.standard_normal((count, size), dtype=np.float32)
        made = [
            events.build(
                {
                    "type": "memory.observed",
                    "group_id": GROUP,
                    "agent_id": LARGEST
                    if number % 2
                    else f"agent-{(start + number) // 2 % max(agents - 1, 1)}",
                    "session_id": f"day-{start // BATCH}",
                    "payload": {
                        "description": text,
                        "poignancy": 1 + number % 10,
                        "historic": True,
                        "vector": vector.tobytes(),
                        "embedding_model": model,
                    },
                }
            )
            for number, (text, vector) in enumerate(
                zip(sentences(random, count, WORDS_A_TEXT), vectors, strict=True)
            )
        ]
        with unit_of_work() as connection:
            store(connection, made)
    with unit_of_work() as connection, as_owner(connection):
        connection.execute(text_of("ANALYZE"))  # as the autovacuum does a minute later


def sign_in(http: httpx2.Client) -> None:
    somebody = AddPerson(
        name=PERSON, password_hash=hash_password(PASSWORD), role="operator", groups=None, all_groups=True
    )
    add_person.perform(Actor(GROUP, "bench", operator=True), somebody)
    token = _TOKEN.search(http.get("/sign-in").text)
    assert token is not None
    http.post("/sign-in", data={"name": PERSON, "password": PASSWORD, "csrf_token": unescape(token[1])})


def pages(http: httpx2.Client) -> dict[str, str]:
    """One page of each kind that links lead to: its name → its address."""
    kinds = create_app().url_map.bind("localhost")
    found: dict[str, str] = {}
    waiting = [f"/?group={GROUP}", f"/agents/{GROUP}/{LARGEST}", f"/memories?group={GROUP}&agent={LARGEST}"]
    while waiting:
        address = waiting.pop(0)
        name = _name(kinds, address)
        if name is None or name in found or NO_PAGE.search(name):
            continue
        answer = http.get(address)
        if answer.status_code == httpx2.codes.OK and "text/html" in answer.headers["content-type"]:
            found[name] = address
            waiting += list(_links(address, answer.text))
    return found


def _name(kinds: Any, address: str) -> str | None:
    try:
        endpoint, _ = kinds.match(urlsplit(address).path)
    except (HTTPException, RequestRedirect):
        return None
    return str(endpoint)


def _links(address: str, page: str) -> Iterator[str]:
    for link in map(unescape, _LINK.findall(page)):
        if not urlsplit(link).netloc:
            yield urljoin(address, link)


def first_byte_ms(http: httpx2.Client, address: str) -> float:
    began = time.perf_counter()
    with http.stream("GET", address) as answer:
        next(answer.iter_raw())
        return (time.perf_counter() - began) * 1_000


def measure(memories: int, agents: int, visits: int) -> dict[str, Any]:
    with (
        running(),
        TemporaryDirectory(prefix="jiyi-bench-web-") as logs,
        ephemeral.served(Path(logs)) as (port, _),
    ):
        fill(memories, agents)
        with Client(GROUP) as client:
            client.retrieve(LARGEST, "what happened in the morning?", timeout=PATIENCE)
        with httpx2.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, follow_redirects=True
        ) as http:
            sign_in(http)
            found = pages(http)
            taken = {
                name: [first_byte_ms(http, address) for _ in range(visits)] for name, address in found.items()
            }
    p95 = {name: quantile(times, 0.95) for name, times in taken.items()}
    return {
        "machine": machine(),
        "memories": memories,
        "agents": agents,
        "pages": len(taken),
        "p50_ms": quantile([quantile(times, 0.5) for times in taken.values()], 0.5),
        "p95_ms": quantile([one for times in taken.values() for one in times], 0.95),
        "over_goal": sorted(name for name, value in p95.items() if value > GOAL_MS),
        "slowest": dict(sorted(p95.items(), key=lambda one: -one[1])[:SLOWEST]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="How soon the admin's pages begin to come.")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--visits", type=int, default=20, help="of each page")
    asked = parser.parse_args()
    figures = measure(asked.memories, asked.agents, asked.visits)
    if asked.json:
        print(json.dumps(figures, indent=2))
        return
    table = Table("page", "p95 ms", title=f"{figures['pages']} pages · {figures['machine']}")
    for name, value in figures["slowest"].items():
        table.add_row(name, f"{value:,.0f}")
    table.add_row("all", f"{figures['p95_ms']:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
