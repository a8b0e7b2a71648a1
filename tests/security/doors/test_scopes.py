"""A key does no more than its scopes say: every operation of REST, and every action by its name, with every
scope but its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from flask import Flask

from jiyi.protocol.openapi.document import PREFIX
from jiyi.protocol.wire.signatures import KeyScope
from models.actions import ACTIONS
from web import mem0
from web.api import OPERATIONS

#: What a key of a group can have.
OF_A_GROUP: frozenset[KeyScope] = frozenset({"publish", "read", "admin"})
#: For names and ids in paths: nobody gets as far as to look for them.
ANY_ID = "00000000-0000-4000-8000-000000000000"
#: The operation that performs any action: what it needs follows from the action.
BY_NAME = "perform_action"


def doors() -> Iterator[tuple[str, str, str, bool]]:
    """Method, path, the scope that it needs, and whether it takes a body."""
    for operation in OPERATIONS:
        path = operation.url
        if operation.id == BY_NAME:
            yield from (
                (operation.method, path.replace("{name}", action.name), action.scope, True)
                for action in ACTIONS.values()
            )
        if operation.scope is None:  # what needs a key, and no right: who am I
            continue
        for part in operation.parts:
            path = path.replace(f"{{{part}}}", ANY_ID)
        yield operation.method, path, operation.scope, operation.body is not None
    for operation in mem0.OPERATIONS:
        assert operation.scope is not None
        path = mem0.PATH + re.sub("<string:[a-z_]+>", ANY_ID, operation.path)
        yield operation.method, path, operation.scope, operation.body is not None


def test_every_scope_is_tried() -> None:
    assert {scope for _, _, scope, _ in doors()} == {*get_args(KeyScope)}
    operations = [one for one in (*OPERATIONS, *mem0.OPERATIONS) if one.scope is not None]
    assert len([*doors()]) == len(operations) + len(ACTIONS)
    assert all(path.startswith((f"{PREFIX}/", f"{mem0.PATH}/")) for _, path, _, _ in doors())


@pytest.mark.parametrize("scope", get_args(KeyScope))
def test_all_other_scopes_together_are_too_little(
    web_app: Flask, api_key: Callable[..., str], group: str, scope: KeyScope
) -> None:
    client = web_app.test_client()
    headers = {"Authorization": f"Bearer {api_key(group, *sorted(OF_A_GROUP - {scope}))}"}
    let_in = []
    for method, path, needed, takes_body in doors():
        if needed != scope:
            continue
        what: dict[str, Any] = {"json": {}} if takes_body else {}
        answer = client.open(path, method=method, headers=headers, **what)
        if answer.status_code != 403:
            let_in.append(f"{method} {path} → {answer.status_code}")
    assert let_in == []
