"""The core by itself: run as a process with ``JIYI_SUBJECTS=none``, it does what a program and a person do,
and tells how it went.

``python -m tests.integration.operations.core_only GROUP PERSON`` prints one line of JSON. Web and worker are
in this process.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from celery.contrib.testing.worker import start_worker

from jiyi import Client
from jiyi.errors import JiyiError
from jiyi.protocol.accounts import CreateKey, NewKey
from jiyi.protocol.wire.signatures import new_key
from models.accounts.actions import create_key
from models.db.actions import Actor
from models.queue.broker_queues import task_queues
from tests.services import somebody
from web import create_app
from web.accounts import sessions
from workers.app import app

#: Seconds that an answer may take, and that a request waits until its event can be retrieved.
SECONDS, WAIT = 60.0, 10.0


def main(group: str, person: str) -> dict[str, Any]:
    web = create_app()
    key = new_key()
    create_key.perform(
        Actor(group), CreateKey(key=NewKey.of(key), name="test", scopes=["publish", "read", "admin"])
    )
    program, browser = web.test_client(), web.test_client()
    with browser.session_transaction() as session:
        session.update(sessions.fresh(somebody("operator"), int(time.time())))

    def api(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = program.open(
            f"/api/v1{path}", method=method, json=body, headers={"Authorization": f"Bearer {key}"}
        )
        return answer.status_code, answer.get_json()

    def refusal(ask: Any) -> str:
        try:
            return repr(ask())
        except JiyiError as error:
            return f"{error.code}: {error}"

    with (
        start_worker(
            app, pool="threads", concurrency=8, perform_ping_check=False, queues=",".join(task_queues())
        ),
        Client(group) as client,
    ):
        stored = api(
            "POST",
            f"/events?wait={WAIT:g}",
            {"agent_id": "klaus", "description": "Klaus planted nine apricot trees"},
        )
        api(
            "POST",
            f"/events?wait={WAIT:g}",
            {"agent_id": "klaus", "description": f"{person} came to see the trees"},
        )
        found = client.retrieve("klaus", "How many apricot trees?", timeout=SECONDS)
        told = {
            "stored": stored[0],
            "found": found.groups[0].retrieved_nodes[0].description,
            "items": refusal(lambda: client.items.get(items=[{"namespace": ["a"], "key": "b"}])),
            "skills": refusal(lambda: client.evolution.hint(agent_id="klaus")),
            "tiers": refusal(lambda: client.query_memory("trees", timeout=SECONDS)),
            "by_name": api("POST", "/actions/stores.list", {}),
            "path": api("POST", "/items/get", {"items": []}),
            "no_path": api("POST", "/nothing", {}),
            "event": api(
                "POST",
                "/events",
                {
                    "type": "node.executed",
                    "agent_id": "a",
                    "payload": {"node_id": "n", "output": "An output."},
                },
            ),
            "document": browser.get("/api/openapi.json").get_json(),
            "menu": browser.get("/").get_data(as_text=True),
            "agent": browser.get(f"/agents/{group}/klaus").status_code,
            "pages": {
                path: browser.get(path).status_code
                for path in ("/memories", "/growth", "/stores", "/tiers", "/heartbeats")
            },
        }
        erasure = client.erasure.wait_for(
            client.erasure.request(person=person).erasure_id, timeout=2 * SECONDS
        )
        return {**told, "erased": erasure.state, "left": (erasure.report or {}).get("left")}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))  # noqa: T201 – what is asked for
