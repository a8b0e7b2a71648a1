"""Programs written for mem0, with our address and key: what they add is found, changed, told and deleted as
mem0 does it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from bench.support.environments import PEERS, Skipped, environment
from jiyi import Client
from tests.integration.waiting import until

KeyMaker = Callable[..., str]
#: What its own client does, in the order of its documentation; prints what came of it.
SCRIPT = """
import json, sys
from mem0 import MemoryClient

client = MemoryClient(api_key=sys.argv[2], host=sys.argv[1])
added = client.add([{"role": "user", "content": "Mia keeps bees in Bergen"}], user_id="mia", infer=False, metadata={"topic": "bees"})
memory_id = added["results"][0]["id"]
client.add("Mia drinks oolong tea", user_id="mia", infer=False)
inferred = client.add([{"role": "user", "content": "I am allergic to peanuts."}], user_id="leo", run_id="r1")
found = client.search("Who keeps bees?", filters={"user_id": "mia"}, top_k=1)
listed = client.get_all(filters={"AND": [{"user_id": "mia"}]}, page=1, page_size=1)
updated = client.update(memory_id, text="Mia keeps bees in Oslo", metadata={"topic": "moved"})
told = client.get(memory_id)
history = client.history(memory_id)
users = client.users()
client.delete(memory_id)
try:
    gone = client.get(memory_id)
except Exception as error:
    gone = type(error).__name__
client.delete_all(user_id="mia")
left = client.get_all(filters={"user_id": "mia"})
print(json.dumps([memory_id, inferred, found, listed, updated, told, history, users, gone, left]))
"""


@pytest.mark.long
def test_its_own_client_works_with_our_address_and_key(
    service: str, unlimited_web: int, api_key: KeyMaker, tmp_path: Path
) -> None:
    try:
        python = environment(next(peer for peer in PEERS if peer.name == "mem0"))
    except Skipped as error:
        pytest.skip(f"mem0ai {error}")
    key = api_key(service, "publish", "read", "admin")
    command = [str(python), "-c", SCRIPT, f"http://127.0.0.1:{unlimited_web}/api/mem0", key]
    done = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MEM0_TELEMETRY": "False"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    memory_id, inferred, found, listed, updated, told, history, users, gone, left = json.loads(done.stdout)
    assert (found["results"][0]["id"], found["results"][0]["metadata"]) == (memory_id, {"topic": "bees"})
    assert (listed["count"], len(listed["results"])) == (2, 1)
    assert updated["memory"] == told["memory"] == "Mia keeps bees in Oslo"
    assert (told["id"], told["metadata"]) == (memory_id, {"topic": "moved"})
    assert [(each["event"], each["new_memory"]) for each in history] == [
        ("ADD", "Mia keeps bees in Bergen"),
        ("UPDATE", "Mia keeps bees in Oslo"),
    ]
    assert {"agent": "assistant", "user": "mia"}.items() <= {
        each["type"]: each["name"] for each in users["results"]
    }.items()
    assert (gone, left["results"]) == ("MemoryNotFoundError", [])
    assert inferred["status"] == "PENDING"
    with Client(service) as client:
        until(
            lambda: any("peanut" in memory.description for memory in client.list("assistant", user_id="leo"))
        )


class Asking:
    """Requests with one key, as mem0's programs send them."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._address, self._headers = f"http://127.0.0.1:{port}/api/mem0", headers

    def __call__(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answer = httpx2.request(
            method, f"{self._address}{path}", json=body, headers=self._headers, timeout=60
        )
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def asking(unlimited_web: int, api_key: KeyMaker, service: str) -> Callable[..., Asking]:
    """Somebody who asks with a key of the test's group (or another) with these scopes, sent as mem0's clients
    send it.
    """

    def made(*scopes: str, group: str = service, own_server: bool = False) -> Asking:
        key = api_key(group, *(scopes or ("publish", "read", "admin")))
        return Asking(unlimited_web, {"X-API-Key": key} if own_server else {"Authorization": f"Token {key}"})

    return made


BEES = {
    "messages": "Mia keeps bees in Bergen",
    "user_id": "mia",
    "infer": False,
    "metadata": {"topic": "bees"},
    "app_id": "shop",
}


def test_each_version_of_its_paths_adds_finds_changes_tells_and_deletes(
    asking: Callable[..., Asking],
) -> None:
    ask = asking(own_server=True)
    assert ask("GET", "/v1/ping/")["status"] == "ok"
    (added,) = ask("POST", "/memories", BEES)["results"]
    tea_of_leo = {**BEES, "messages": [{"role": "assistant", "content": "Leo drinks tea"}], "user_id": "leo"}
    (tea,) = ask("POST", "/v1/memories/", tea_of_leo)["results"]
    bees, of_shop = {"query": "bees"}, {"AND": [{"user_id": "mia"}, {"app_id": "shop"}]}
    of_bees = {"user_id": "mia", "metadata": {"topic": "bees"}}
    for path, body in (
        ("/search", {**bees, "user_id": "mia"}),
        ("/v2/memories/search/", {**bees, "filters": of_shop}),
        ("/v3/memories/search/", {**bees, "filters": of_bees, "top_k": 3}),
    ):
        (found,) = ask("POST", path, body)["results"]
        assert (found["id"], found["user_id"], found["score"] >= 0) == (added["id"], "mia", True)
    elsewhere = {**bees, "filters": {"user_id": "mia", "app_id": "else"}}
    assert ask("POST", "/v3/memories/search/", elsewhere)["results"] == []
    assert [row["id"] for row in ask("GET", "/memories?user_id=leo")["results"]] == [tea["id"]]
    moved = {"id": added["id"], "memory": "Mia keeps bees in Oslo"}  # it keeps the id that it was added under
    changed = ask("PUT", f"/memories/{added['id']}", {"data": moved["memory"]})
    assert changed.items() >= {**moved, "metadata": {"topic": "bees"}}.items()
    (row,) = ask("POST", "/v2/memories/", {"filters": {"user_id": "mia"}})["results"]
    assert row.items() >= moved.items()
    assert [each["event"] for each in ask("GET", f"/v1/memories/{added['id']}/history/")] == ["ADD", "UPDATE"]
    ask("DELETE", "/v2/entities/user/leo/")
    ask("DELETE", f"/v1/memories/{added['id']}/")
    until(lambda: ask("GET", "/v1/entities/")["results"] == [])  # a busy machine takes its time to erase
    for memory_id in (added["id"], tea["id"], str(uuid4()), "no-uuid"):
        ask("GET", f"/v1/memories/{memory_id}/", status=404)


def test_what_cannot_be_asked_is_refused_in_one_sentence(asking: Callable[..., Asking]) -> None:
    ask = asking()
    for path, body, word in (
        ("/v3/memories/add/", {"messages": [{"role": "user", "content": "x"}]}, "user_id"),
        ("/v3/memories/add/", {"messages": [], "user_id": "mia"}, "messages"),
        ("/v3/memories/search/", {"query": "x", "filters": {"OR": [{"user_id": "a"}]}}, "OR"),
        ("/v3/memories/search/", {"query": "x", "filters": {"user_id": {"in": ["a"]}}}, "user_id"),
        ("/v3/memories/", {"filters": []}, None),
    ):
        answer = ask("POST", path, body, status=200 if word is None else 422)
        assert word is None or word in answer["detail"]
    assert "user_id" in ask("DELETE", "/v1/memories/", status=422)["detail"]
    assert ask("GET", "/v1/memories/?agent_id=nobody")["results"] == []


def test_its_paths_have_the_groups_of_the_actions(asking: Callable[..., Asking], group: str) -> None:
    """Their scopes are tried in ``security/doors``."""
    own, stranger = asking(), asking(group=f"{group}-other")
    (added,) = own("POST", "/v3/memories/add/", BEES)["results"]
    address = f"/v1/memories/{added['id']}/"
    for method, path, body in (
        ("GET", address, None),
        ("GET", f"{address}history/", None),
        ("PUT", address, {"text": "x"}),
        ("DELETE", address, None),
    ):
        stranger(method, path, body, status=404)
    bees = {"query": "bees", "filters": {"user_id": "mia"}}
    assert stranger("POST", "/v3/memories/search/", bees)["results"] == []
    assert stranger("GET", "/v1/entities/")["results"] == []
    stranger("DELETE", "/v1/memories/?user_id=mia")
    assert own("GET", address)["memory"] == BEES["messages"]


def test_nobody_comes_in_without_a_good_key(unlimited_web: int) -> None:
    for headers in (
        {},
        {"Authorization": "Token jiyi_wrong"},
        {"X-API-Key": "jiyi_wrong"},
        {"Authorization": "Basic eDp5"},
    ):
        Asking(unlimited_web, headers)("GET", "/v1/ping/", status=401)
