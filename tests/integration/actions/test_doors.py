"""Every mutation of the table has its effect and leaves one audit row; each door does the same, shown by some
that stand for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import current_app
from flask import Flask
from pydantic import BaseModel
from sqlalchemy import text

from jiyi.protocol.actions import ALIASES, TABLE
from jiyi.protocol.wire.calls import open_reply
from models.actions import ACTIONS
from models.db.connection import unit_of_work
from models.db.scope import Scope, within
from tests.integration.actions import (
    accounts,
    by_workers,
    conversations,
    erasure,
    items,
    memory,
    operations,
    queue,
    reflection,
    tiers,
)
from tests.integration.actions.calling import called, register_tasks, service, stored_of
from tests.integration.actions.cases import Case
from tests.integration.actions.growth import myself as growth_self
from tests.integration.actions.growth import skills as growth_skills
from tests.integration.actions.growth import times as growth_times
from tests.integration.conftest import SignIn
from tests.integration.stores import cases as stores

pytestmark = pytest.mark.usefixtures("database")

NOBODY = Scope()
SUBJECTS = (
    accounts,
    conversations,
    erasure,
    growth_self,
    growth_skills,
    growth_times,
    items,
    memory,
    operations,
    queue,
    reflection,
    stores,
    tiers,
)
IN_WEB = tuple(case for subject in SUBJECTS for case in subject.CASES)
CASES: tuple[Case, ...] = (*IN_WEB, *by_workers.CASES)
#: Tried in a database of its own: ``operations/test_reembedding.py``.
ELSEWHERE = {"reembedding.step", "memory.forget"}
#: What they do is in no row.
WITHOUT_A_TRACE = {"jobs.run", "llms.forget", "stores.load", "stores.save", "workers.set_mode"}
Door = Callable[[Case, str, Any], str]


class Workers:
    """In place of the web's caller: what it asks of workers is done here, as a worker does it."""

    @staticmethod
    def act(
        action: str,
        _queue: str,
        group_id: str,
        request: BaseModel,
        _timeout: float | None = None,
        *,
        actor: str,
    ) -> Any:
        body = {"group_id": group_id, **request.model_dump(mode="json", exclude_none=True)}
        return open_reply(called(f"rpc.{action}", body, service(), actor=actor))


@pytest.fixture(autouse=True)
def _workers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.actions.caller", Workers)


def through_rpc(case: Case, group: str, made: Any, name: str = "") -> str:
    """The Celery task's function, and the reply that it leaves in Valkey."""
    body = {"group_id": group, **case.request(made).model_dump(mode="json", exclude_none=True)}
    open_reply(called(f"rpc.{name or case.action.name}", body, service()))  # raises what it carries
    return "operator"


def audit_rows(action: str) -> list[dict[str, Any]]:
    with unit_of_work() as connection:
        return [dict(row) for row in connection.execute(_AUDIT, {"action": action}).mappings()]


def tried(case: Case, group: str, door: Door) -> dict[str, Any]:
    """What the action left: its effect, and its audit row without what differs from run to run."""
    made = case.prepare(group)
    stored = stored_of(group)
    before = {row["audit_id"] for row in audit_rows(case.action.name)}
    actor = door(case, group, made)
    after = audit_rows(case.action.name)
    rows = [
        row for row in after if row["audit_id"] not in before and row["actor"] != "test"
    ]  # a door may need a key, or a person
    assert len(rows) == 1, f"{case} left {len(rows)} audit rows"
    assert rows[0]["actor"].startswith(actor)
    left = {
        "changed": stored_of(group) != stored,
        "effect": case.effect and case.effect(group, made),
        "ours": rows[0]["group_id"] == group,
        "details": sorted(rows[0]["details"]),
    }
    forgotten(group)
    return left


def forgotten(group: str) -> None:
    """What is owed is called off: nobody shall do it later, or find that it is late."""
    with unit_of_work() as connection:
        for table in ("pending_work", "erasures"):
            connection.execute(text(f"DELETE FROM {table} WHERE group_id = :group"), {"group": group})


def test_every_mutation_has_a_case() -> None:
    assert {name for name, action in ACTIONS.items() if action.mutates} == {
        case.action.name for case in CASES
    } | ELSEWHERE


def test_every_action_and_alias_is_answered_over_the_broker() -> None:
    register_tasks()
    assert {f"rpc.{name}" for name in (*TABLE, *ALIASES)} <= set(current_app.tasks)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_change_has_its_effect_and_one_audit_row(case: Case, group: str) -> None:
    """Tried over the broker, which has all of them: other rows are stored than before. Which, its subject's
    own tests show.
    """
    left = tried(case, group, through_rpc)
    assert left["changed"] is (case.action.name not in WITHOUT_A_TRACE)


def test_an_alias_does_the_same_over_the_broker(group: str) -> None:
    case = next(case for case in CASES if case.action.name == "conversations.store")
    through_alias = lambda *asked: through_rpc(*asked, name="memory_store")
    assert tried(case, f"{group}-alias", through_alias) == tried(case, group, through_rpc)


def test_rest_does_the_same(group: str, web_app: Flask, api_key: Callable[..., str]) -> None:
    def through_rest(case: Case, group_id: str, made: Any) -> str:
        assert case.rest is not None
        method, path, body = case.rest(made)
        headers = {"Authorization": f"Bearer {api_key(group_id, case.action.scope)}"}
        with within(NOBODY):
            answer = web_app.test_client().open(f"/api/v1{path}", method=method, json=body, headers=headers)
        assert answer.status_code in (200, 201, 202), answer.text
        return "key:"

    same_as_over_the_broker([case for case in CASES if case.rest is not None], group, through_rest)


def test_the_admin_does_the_same(group: str, sign_in: SignIn) -> None:
    browser = sign_in("operator")

    def through_page(case: Case, group_id: str, made: Any) -> str:
        assert case.admin is not None
        path, form = case.admin(made)
        with within(NOBODY):
            answer = browser.post(
                path.replace("{group}", group_id), query_string={"group": group_id}, data=form
            )
        assert answer.status_code in (200, 201, 204, 303), answer.text
        return "user:"

    same_as_over_the_broker([case for case in CASES if case.admin is not None], group, through_page)


def same_as_over_the_broker(cases: list[Case], group: str, door: Door) -> None:
    for place, case in enumerate(cases):
        own = f"{group}-{place}"
        assert tried(case, f"{own}-other", door) == tried(case, own, through_rpc), str(case)


_AUDIT = text(
    "SELECT audit_id, group_id, actor, target, details FROM audit_log WHERE action = :action ORDER BY"
    " audit_id"
)
