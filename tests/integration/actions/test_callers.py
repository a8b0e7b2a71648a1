"""Who may call over the broker: every action, and every question, for another group, unsigned, and with keys
that are not good.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from inspect import signature
from typing import Any, get_args
from uuid import uuid4

import pytest

from jiyi.errors import NotAllowed
from jiyi.protocol.accounts import RevokeKey
from jiyi.protocol.actions import ALIASES, name_of
from jiyi.protocol.wire import signatures
from jiyi.protocol.wire.calls import open_reply
from jiyi.protocol.wire.signatures import (
    AT_HEADER,
    KEY_HEADER,
    SERVICE,
    SIGNATURE_HEADER,
    CallSigner,
    KeyScope,
    new_key,
    parse_key,
    service_call_key,
)
from jiyi.settings import get_settings
from models.accounts.actions import revoke_key
from models.actions import ACTIONS
from models.db.actions import Actor
from models.operations import actions as operations
from tasks.framework.answering import CALL_SECONDS, CLOCK_SECONDS, caller
from tests.integration.actions.calling import called, deliver, headers_of, register_tasks, service, stored_of
from tests.integration.memory.test_inbox import observed, rows, save
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database")

#: What must never be in an answer to somebody who may not ask.
SECRET = "the red notebook is under the stairs"
EVERYTHING: tuple[KeyScope, ...] = ("publish", "read", "admin")
#: Questions that are no actions, by the name of their task.
QUESTIONS = {
    "retrieval.retrieve": {"agent_id": "klaus", "queries": ["notebook"], "relevance": "lexical"},
    "retrieval.memory": {"query": "notebook"},
}
ANY_ID = str(uuid4())
#: Values of fields that a request must have, by name.
FITTING: dict[str, Any] = {
    "agent_id": "klaus",
    "agent_ids": ["klaus"],
    "event_ids": [ANY_ID],
    "entry_ids": [ANY_ID],
    "letter_ids": [ANY_ID],
    "knowledge_ids": [ANY_ID],
    "job": "reconcile",
    "slot": "2026-03-01T08:00:00Z",
    "name": "somebody",
    "ids": [ANY_ID],
    "kind": "embed",
    "key_id": "a" * 12,
}
#: Of actions whose request says more than its fields tell: something that would work.
BODIES: dict[str, dict[str, Any]] = {
    "erasure.preview": {"agent_id": "klaus"},
    "erasure.request": {"agent_id": "klaus"},
    "agents.configure": {"agent_id": "klaus", "mode": "elapsed"},
    "memory.rate": {"ids": [ANY_ID], "importance": 5},
    "archive.restore": {"agent_id": "klaus"},
    "prompts.show": {"name": "extraction"},
    "keys.create": {"name": "mine", "scopes": ["admin"]},
}

Signer = Callable[..., CallSigner]


@pytest.fixture
def signer(api_key: Callable[..., str]) -> Signer:
    """``signer(group, "read")``: signs with a new key of that group with those rights."""

    def make(group: str | None, *scopes: KeyScope, **options: Any) -> CallSigner:
        key = parse_key(api_key(group, *scopes, **options))
        assert key is not None
        return CallSigner(key.key_id, key.signing_key)

    return make


@pytest.fixture
def victim(group: str) -> str:
    save(observed(group, SECRET), observed(group, f"{SECRET}, says Maria", agent_id="maria"))
    return group


def names() -> list[tuple[str, KeyScope]]:
    """Every task that answers calls, with the right that it needs; of aliases, which are the same tasks once
    more, two.
    """
    questions: list[tuple[str, KeyScope]] = [(task, "read") for task in QUESTIONS]
    return questions + [
        (f"rpc.{name}", ACTIONS[name_of(name)].scope) for name in (*ACTIONS, "memory_store", "viking_remove")
    ]


def body(task: str, group: str) -> dict[str, Any]:
    """A request that reaches the action: nothing is wrong with it but who sends it."""
    if task in QUESTIONS:
        return {"group_id": group, **QUESTIONS[task]}
    action = ACTIONS[name_of(task.removeprefix("rpc."))]
    given = {
        name: FITTING.get(name, ANY_ID)
        for name, field in action.request.model_fields.items()
        if field.is_required()
    }
    return {"group_id": group, **given, **BODIES.get(action.name, {})}


def fingerprint(group: str) -> dict[str, str]:
    """Everything that is stored of a group, and of people, as text; not when keys were made for the test."""
    found = stored_of(group)
    del found["api_keys"], found["groups"]
    audit = "SELECT count(*) AS n FROM audit_log WHERE group_id = :g AND action NOT LIKE 'keys.%'"
    return found | {"audit_log": str(rows(audit, g=group)[0]["n"])}


def expired(key: CallSigner) -> CallSigner:
    rows(
        "UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE key_id = :id RETURNING 1",
        id=key.key_id,
    )
    return key


def refused(reply: bytes) -> bool:
    return json.loads(reply).get("error", {}).get("code") == NotAllowed.code


class Callers:
    """Keys of those who might ask for what is not theirs."""

    def __init__(self, victim: str, signer: Signer) -> None:
        self.victim, self.other = victim, signer(f"{victim}-b", *EVERYTHING)
        self.own, self.expired = signer(victim, *EVERYTHING), expired(signer(victim, *EVERYTHING))
        self.revoked = signer(victim, *EVERYTHING)
        revoke_key.perform(Actor(victim, "test"), RevokeKey(id=self.revoked.key_id))
        self.without = {
            scope: signer(victim, *(one for one in EVERYTHING if one != scope))
            for scope in get_args(KeyScope)
        }

    def attempts(self, task: str, scope: KeyScope) -> Iterator[tuple[str, bytes]]:
        """Every way in which somebody might ask for what is not theirs: its name, and the answer."""
        asked, own, other = body(task, self.victim), self.own, self.other
        nobody = new_key()
        for how, caller_ in {
            "unsigned": None,
            "key of another group": other,
            "unknown key": CallSigner(nobody.key_id, nobody.signing_key),
            "another key's secret": CallSigner(own.key_id, other.signing_key),
            "wrong service secret": CallSigner(SERVICE, service_call_key("x" * 40)),
            "service, with a key's secret": CallSigner(SERVICE, own.signing_key),
            "expired": self.expired,
            "revoked": self.revoked,
            "without the right": self.without[scope],
        }.items():
            yield how, called(task, asked, caller_)
        args = [str(uuid4()), body(task, f"{self.victim}-b")]
        yield "signed for one's own group", deliver(task, [args[0], asked], headers_of(other, task, args, {}))
        args = [str(uuid4()), asked]
        yield "signed for another task", deliver(task, args, headers_of(own, "rpc.agents.list.", args, {}))
        headers = headers_of(service(), task, args, {})
        if task not in QUESTIONS:
            yield "an actor put in", deliver(task, args, headers, {"actor": "operator"})
        half = {name: headers[name] for name in (KEY_HEADER, AT_HEADER)}
        yield "half a signature", deliver(task, args, half)


def test_every_task_that_answers_calls_is_tried(victim: str) -> None:
    """A new one is in the matrix below by itself, or this fails."""
    from celery import current_app

    register_tasks()
    answering = {
        name for name, task in current_app.tasks.items() if "request_id" in signature(task.run).parameters
    }
    assert answering - {f"rpc.{alias}" for alias in ALIASES} <= {task for task, _ in names()} <= answering


def test_of_every_action_nobody_gets_or_does_anything_for_another_group_or_without_a_good_key(
    victim: str, signer: Signer
) -> None:
    callers, before, leaks, tried = Callers(victim, signer), fingerprint(victim), [], 0
    for task, scope in names():
        for how, reply in callers.attempts(task, scope):
            tried += 1
            if SECRET.encode() in reply or not refused(reply):
                leaks.append((task, how, reply[:200]))
    assert leaks == []
    assert tried >= 12 * len(ACTIONS)
    assert fingerprint(victim) == before


def test_operators_actions_never_go_unsigned_and_the_rest_only_by_an_explicit_setting(victim: str) -> None:
    with environment(accept_unsigned="all"):
        for task, scope in names():
            if scope == "operator":
                assert refused(called(task, body(task, victim), None)), task
        for task in ("rpc.agents.list", "retrieval.retrieve"):
            assert not json.loads(called(task, body(task, victim), None)).get("error"), task
        # Not even by way of an action that operators share with others.
        operator_key = {"key_id": "z" * 12, "secret_hash": "0" * 64, "signing_key": "0" * 64}
        made = {"group_id": victim, "key": operator_key, "name": "mine", "scopes": ["operator"]}
        assert b"only an operator" in called("rpc.keys.create", made, None)
    assert refused(called("rpc.agents.list", body("rpc.agents.list", victim), None))


def test_with_the_right_key_one_is_answered_and_its_use_is_noted(victim: str, signer: Signer) -> None:
    scopes = dict(names())
    lists = ("rpc.agents.list", "rpc.stats.show", "rpc.dead_letters.list", "rpc.keys.list")
    for task in (*lists, *QUESTIONS):
        mine = signer(victim, scopes[task])
        reply = called(task, body(task, victim), mine)
        assert "value" in json.loads(reply), (task, reply)
        assert used_at(victim, mine) is not None
    unused = signer(victim, "read")
    assert refused(called("rpc.agents.list", {"group_id": f"{victim}-b"}, unused))
    assert used_at(victim, unused) is None
    operator = signer(None, "operator")  # for any group
    assert open_reply(called("rpc.agents.list", body("rpc.agents.list", victim), operator))["rows"]
    assert isinstance(open_reply(called("rpc.people.list", {"group_id": victim}, operator)), list)


def test_a_key_s_actions_are_the_key_s_in_the_audit_log_whatever_it_claims(
    victim: str, signer: Signer
) -> None:
    mine = signer(victim, "publish")
    asked = {"group_id": victim, **BODIES["agents.configure"]}
    open_reply(called("rpc.agents.configure", asked, mine, actor="operator"))
    (row,) = rows("SELECT actor FROM audit_log WHERE group_id = :g AND action = 'agents.configure'", g=victim)
    assert str(row["actor"]).startswith(f"key:{mine.key_id}")


def used_at(group: str, key: CallSigner) -> datetime | None:
    found = rows(
        "SELECT last_used_at FROM api_keys WHERE group_id = :g AND key_id = :id", g=group, id=key.key_id
    )
    return found[0]["last_used_at"]  # type: ignore[no-any-return]


def test_a_changing_call_is_accepted_once_and_a_signature_grows_old(
    victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, asked = "rpc.agents.configure", {"group_id": victim, **BODIES["agents.configure"]}
    args = [str(uuid4()), asked]
    headers = headers_of(service(), task, args, {})
    open_reply(deliver(task, args, headers))
    with pytest.raises(NotAllowed, match="already received"):
        open_reply(deliver(task, args, headers))
    now = time.time()
    for shift, good in ((-CALL_SECONDS - 5, False), (-CALL_SECONDS + 20, True), (CLOCK_SECONDS + 5, False)):
        monkeypatch.setattr(signatures.time, "time", lambda shift=shift: now + shift)
        args = [str(uuid4()), asked]
        headers = headers_of(service(), task, args, {})
        monkeypatch.setattr(signatures.time, "time", lambda: now)
        assert refused(deliver(task, args, headers)) is not good
    monkeypatch.undo()
    for at in ("", "soon", "nan", "inf"):
        args = [str(uuid4()), asked]
        key = service_call_key(get_settings().secret_key.get_secret_value())
        signature = signatures.call_signature(key, task, at, args, {})
        assert refused(deliver(task, args, {KEY_HEADER: SERVICE, AT_HEADER: at, SIGNATURE_HEADER: signature}))


def test_a_worker_without_the_secret_says_so(victim: str) -> None:
    signer = service()
    with (
        environment(secret_key="", home="/nonexistent"),
        pytest.raises(NotAllowed, match="does not know JIYI_SECRET_KEY"),
    ):
        open_reply(called("rpc.agents.list", {"group_id": victim}, signer))


def test_a_run_of_a_job_beside_its_schedule_is_the_service_s_to_send(
    monkeypatch: pytest.MonkeyPatch, signer: Signer, victim: str
) -> None:
    from celery import current_app

    from engine.operations import JOBS
    from tasks.framework import jobs

    ran: list[Any] = []
    monkeypatch.setattr(
        jobs, "perform", lambda known, slot, group_id: ran.append((known.name, slot, group_id))
    )
    job, args = JOBS["reconcile"], [datetime.now(UTC).isoformat(), victim]
    task = current_app.tasks[job.task]
    for one in (None, signer(victim, *EVERYTHING), CallSigner(SERVICE, b"x")):
        task.push_request(args=args, kwargs={}, **headers_of(one, job.task, args, {}))
        task.run(*args)
        task.pop_request()
    assert ran == []
    task.push_request(args=args, kwargs={}, **headers_of(service(), job.task, args, {}))
    task.run(*args)
    task.pop_request()
    assert [name for name, _, _ in ran] == ["reconcile"]
    assert operations.run_job.scope == "operator"


def test_signing_and_checking_are_cheap(victim: str) -> None:
    """Counted, not timed: neither asks the database or Valkey anything."""
    args = [str(uuid4()), {"group_id": victim, **QUESTIONS["retrieval.retrieve"]}]
    headers = headers_of(service(), "retrieval.retrieve", args, {})

    class Request:
        def __init__(self) -> None:
            self.args, self.kwargs = args, {}

        def get(self, name: str) -> str | None:
            return headers.get(name)

    with environment(
        redis_url="unix:///nonexistent?db=0", database_url="postgresql+psycopg://nobody@/nowhere"
    ):
        found = caller(Request(), "retrieval.retrieve", victim, "read", changes=False)
    assert found == Actor(victim, found.name, operator=True, admin=True)
