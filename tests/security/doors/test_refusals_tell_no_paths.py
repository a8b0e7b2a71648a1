"""Learning from a refusal where the service's files are: every operation of REST and every action, with bad
input and without servers.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from pydantic import BaseModel

import jiyi
from jiyi.settings import get_settings
from models.actions import ACTIONS
from web.api import OPERATIONS
from workers.ephemeral import environment

#: In place of what a field wants: of a wrong type, a name that leads out of a folder, what no database
#: stores, too long for a file system.
WRONG: tuple[Any, ...] = ({"a": [None]}, "../../../secret", "\0", "名" * 300, -1)
#: A name that no path has, for what a path names.
NAME = "..%2F..%2Fsecret"
#: An address of a server that is not there.
AWAY = "unix:///nonexistent-folder/server.sock?db=0"
NO_DATABASE = "postgresql+psycopg://jiyi@/jiyi?host=/nonexistent-folder"
BY_NAME = "perform_action"


def requests() -> Iterator[tuple[str, str, type[BaseModel] | None]]:
    """Method, path, and what its body should be."""
    for operation in OPERATIONS:
        path = operation.url
        if operation.id == BY_NAME:
            yield from (
                ("POST", path.replace("{name}", action.name), action.request) for action in ACTIONS.values()
            )
            continue
        for part in operation.parts:
            path = path.replace(f"{{{part}}}", NAME)
        yield operation.method, path, operation.body


def bodies(model: type[BaseModel] | None) -> Iterator[Any]:
    """Wrong in all fields, each time in another way."""
    if model is None:
        yield None
        return
    for wrong in WRONG:
        yield dict.fromkeys(model.model_fields, wrong)
    yield from ({}, [], "x")


@pytest.fixture
def told(web_app: Flask, api_key: Callable[..., str], group: str) -> Callable[..., list[str]]:
    """What of all answers names a folder of this machine."""
    folders = {
        str(get_settings().home),
        tempfile.gettempdir(),
        sys.prefix,
        str(Path(jiyi.__file__).parents[1]),
        "/nonexistent-folder",
    }
    headers = {"Authorization": f"Bearer {api_key(group, 'publish', 'read', 'admin')}"}

    def ask(statuses: set[int], wrong: Callable[[type[BaseModel] | None], Iterator[Any]]) -> list[str]:
        client, found, seen = web_app.test_client(), [], set()
        for method, path, model in requests():
            for body in wrong(model):
                what: dict[str, Any] = {} if body is None else {"json": body}
                answer = client.open(path, method=method, headers=headers, **what)
                seen.add(answer.status_code)
                tells = answer.status_code >= 400 and any(one in answer.text for one in folders)
                if tells or (answer.status_code >= 500 and answer.status_code not in statuses):
                    found.append(
                        f"{method} {path} {str(body)[:80]} → {answer.status_code} {answer.text[:300]}"
                    )
        assert statuses <= seen
        return found

    return ask


def test_bad_input_is_refused_without_a_path(told: Callable[..., list[str]], service: str) -> None:
    assert told({404, 422}, bodies) == []


@pytest.mark.usefixtures("own_caller")
@pytest.mark.parametrize("away", ["database", "broker"])
def test_an_outage_is_told_without_a_path(told: Callable[..., list[str]], away: str) -> None:
    gone = {
        "broker": {"redis_url": AWAY, "broker_url": AWAY.replace("unix", "redis+socket")},
        "database": {"database_url": NO_DATABASE},
    }
    with environment(**gone[away]):
        assert told({503}, lambda model: iter([None if model is None else {}])) == []
