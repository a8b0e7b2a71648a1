"""No group sees another's through the API: every operation, with every id and name of another group.

What is tried follows from the registry, so that a new operation, or a new kind of id in a path, cannot be
forgotten. The same is tried with the queries' own filters turned to the wrong group, so that row-level
security stands alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from flask import Flask
from sqlalchemy import Connection

from engine.tiers.quarantine import QuarantineDigest
from jiyi.client.caller import Caller
from jiyi.protocol.appointments import ConfigureHeartbeat, CreateSchedule
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.events import Event, build
from jiyi.protocol.items import ItemWrite, PutItems
from jiyi.protocol.knowledge import PromoteBody
from jiyi.protocol.openapi.document import PREFIX
from jiyi.protocol.stores import ApplyGraph, Snapshot, UpdateStore
from models.actions import ACTIONS
from models.appointments import heartbeat_actions, heartbeats, schedule_actions
from models.appointments.heartbeats import NewAlert
from models.db.actions import Action, Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.erasure.actions import request_erasure
from models.items.actions import put_items
from models.memory.inbox import store
from models.queue import dead_letters
from models.reflection import reflections
from models.stores import actions as stores
from models.tiers import digests
from models.tiers.actions import promote
from tests.services import done_within
from web.accounts.identity import Identity
from web.api import OPERATIONS, running
from web.api.registry import ApiOperation

#: A word that stands in everything that the other group has, and nowhere else.
SECRET = "Heilwasserquelle"
EARLY = datetime(2026, 1, 1, tzinfo=UTC)
URI = f"agent://agent-{SECRET}/knowledge/home"
STORE = f"store-{SECRET}"
DECLARED = {"name": STORE, "type": "simple", "config": {"memory_path": "notes.json"}}
AGENT, SESSION, KEYWORD = f"agent-{SECRET}", f"session-{SECRET}", f"keyword-{SECRET}"

#: Jobs and actions are the service's, and so are their names.
NOT_OF_A_GROUP = {"job": "snapshot", "name": "agents.list"}
#: What these answer is the service's own, and of no group.
OF_NO_GROUP = {
    *"stores_schema list_tools list_queues describe_memory_node extract_session_memories".split(),
    *"estimate_content_tokens embedding_create appointments_parse health_snapshot".split(),
    *"compactor_estimate_text_tokens compactor_estimate_messages_tokens".split(),
    *"compactor_check_threshold compactor_compact".split(),
}
#: Operations that write what they are given: under an agent of the asker's own, whom nothing else is asked
#: of.
WRITING = {
    *"put_items stores_log conversations_store conversations_import conversations_record".split(),
    *"memory_store memory_import viking_add viking_add_with_metadata viking_store_with_summaries".split(),
    *"extract_and_store_memories viking_load_industry_keywords appointments_create".split(),
    "heartbeats_configure",
}
#: The same by the names of actions.
WRITING_ACTIONS = {
    operation.action.name
    for operation in OPERATIONS
    if operation.action is not None and operation.id in WRITING
}
#: Statuses that tell nothing: not found, not allowed, wrong, no answer.
SILENT = {403, 404, 422, 503, 504}
#: Operations that a worker refuses, of which there is none here:
#: tests/integration/retrieval/test_records_noted.py tries another group's.
BY_WORKERS = {"ask_retrieval_again"}


class Other:
    """A group with one of everything, and what of it can be named in a path, a query or a body."""

    def __init__(self, group: str) -> None:
        self.group = group

        def event(payload: dict[str, Any], kind: str = "memory.observed", **named: str) -> Event:
            told = {"type": kind, "group_id": group, "agent_id": AGENT, "payload": payload}
            return build({**told, **named})

        triple = {"subject": SECRET, "predicate": "is", "object": SECRET}
        seen = event({"description": SECRET, "keywords": [KEYWORD], **triple}, session_id=SESSION)
        rests_on = {"node_type": "thought", "evidence": [str(seen.event_id)]}
        thought = event({"description": f"thought of {SECRET}", **rests_on})
        home = {"subject": "user", "predicate": "home", "kind": "knowledge", "uri": URI}
        remembered = event({"description": f"{SECRET} lives in Oslo.", **home})
        said, also = (
            event({"node_id": f"node-{SECRET}", "output": output}, "node.executed", session_id=SESSION)
            for output in (
                f"{SECRET} says for the {time} time what is nobody's." for time in ("first", "second")
            )
        )
        refused = UUID(str(seen.event_id)[:-4] + "ffff")
        wrong = {"type": "memory.observed", "event_id": str(refused), "group_id": group, "agent_id": SECRET}
        who = Actor(group, "test")
        with unit_of_work() as connection:

            def execute(statement: str, *values: Any) -> Any:
                return connection.exec_driver_sql(statement, values)

            def act(action: Action[Any, Any], request: Any) -> Any:
                return done_within(connection, action, who, request)

            store(connection, [seen, thought, remembered])
            execute("INSERT INTO kw_strength VALUES (%s, %s, 'event', %s, 1)", group, AGENT, KEYWORD)
            dead_letters.add_message(connection, json.dumps(wrong), SECRET, refused, group)
            letter = execute("SELECT letter_id FROM dead_letters WHERE group_id = %s", group).scalar_one()
            reflection = reflections.ask(connection, group, AGENT, "request")
            erasure = act(request_erasure, Erasure(node_ids=[thought.event_id])).erasure_id
            store(connection, [said, also])
            done = act(promote, PromoteBody(entry_ids=[said.event_id]))
            working = (
                "UPDATE quarantine_logs SET working_until = now() + interval '1 day' WHERE entry_id = %s"
            )
            execute(working, said.event_id)
            _appointments(connection, group)
            retrieval = execute(
                "INSERT INTO retrievals VALUES (gen_random_uuid(), %s, %s, now(), 'test', ARRAY[%s], '{}', 1,"
                " '{0}', '{}', '{}') RETURNING retrieval_id",
                group,
                AGENT,
                SECRET,
            ).scalar_one()
            item = ItemWrite(namespace=[SECRET], key=KEYWORD, value={"text": SECRET})
            act(put_items, PutItems(items=[item]))
            act(stores.apply, ApplyGraph(graph=SECRET, memory=[DECLARED]))
            kept = Snapshot(text=f"{SECRET} is what the store keeps.")
            act(stores.update, UpdateStore(name=STORE, role=AGENT, output_snapshot=kept))
            digest_id = digests.store(connection, group, EARLY, EARLY, 0, QuarantineDigest(()), [], SECRET)
        self.ids = {
            "node_id": [seen.event_id, thought.event_id],
            "event_id": [seen.event_id, refused],
            "letter_id": [letter],
            "reflection_id": [reflection],
            "retrieval_id": [retrieval],
            "erasure_id": [erasure],
            "agent_id": [AGENT],
            "session_id": [SESSION],
            "entry_id": [said.event_id, also.event_id],
            "knowledge_id": [piece.knowledge_id for piece in done.pieces],
            "digest_id": [digest_id],
        }
        self.ids["id"] = [
            remembered.event_id,
            *(value for values in self.ids.values() for value in values if isinstance(value, UUID)),
        ]

    @property
    def everything(self) -> list[Any]:
        return [value for values in self.ids.values() for value in values]


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no workers."""
    act = Caller.act
    monkeypatch.setattr(Caller, "act", lambda *told, **named: act(*told[:5], 0.05, **named))


@pytest.fixture
def other(group: str, database: Any) -> Other:
    return Other(f"{group}-other")


def _named(other: Other, name: str) -> list[str]:
    return [str(value) for value in other.ids[name]]


#: What asks for all there is, of an agent, or of a store.
ALL, OF_AGENT, OF_STORE = [dict[str, Any]()], [{"agent_id": AGENT}], [{"name": STORE}]
#: Queries and bodies that ask for as much as there may be; by operation, of whose fields none has a name or
#: an id.
ASKING: dict[str, list[dict[str, Any]]] = {
    "list_tools": [{}, {"for": "openai"}],
    "end_session": OF_AGENT,
    "update_memory": [{"description": "x"}],
    "reinstate_memory": [{}, {"reason": SECRET}],
    "forget_memories": [{"agent_id": AGENT, "text": SECRET, "every": True}],
    "put_items": [{"items": [{"namespace": ["own"], "key": "own", "value": {"own": 1}}]}],
    "get_items": [{"items": [{"namespace": [SECRET], "key": KEYWORD}]}],
    "search_items": [{}, {"prefix": [SECRET], "limit": 500}, {"filter": {"text": SECRET}}],
    "list_namespaces": [{}, {"limit": 500}],
    "recall_context": [{"agent_id": AGENT, "query": SECRET}],
    "retrieve_memories": [{"agent_id": AGENT, "query": "What?", "timeout": 0.05}],
    "list_retrievals": [{}, *OF_AGENT, {"limit": 500}],
    "list_memories": [
        *(
            {},
            *OF_AGENT,
            {"words": SECRET},
            {"keyword": KEYWORD},
            {"session_id": SESSION},
            {"type": "thought"},
        ),
        *({"archived": "with"}, {"limit": 500}),
    ],
    "explain_memory": [{}, {"depth": 20, "limit": 1000}],
    "get_memory": [{}, {"user_id": SECRET}],
    "get_agent": [{}, {"user_id": SECRET}],
    "list_keywords": OF_AGENT,
    "related_memories": [{"agent_id": AGENT, "subject": KEYWORD, "object": SECRET}],
    "configure_agent": [{"mode": "elapsed"}],
    "list_reflections": [{}, *OF_AGENT, {"state": "owed"}, {"state": "given up"}],
    "list_dead_letters": [{}, {"kind": "intake"}],
    "build_context": [{"proposal": SECRET, "relevance_threshold": -1, "budget": 8_000}],
    "query_memory": [{"query": SECRET, "timeout": 0.05, "relevance_threshold": -1, "max_results": 100}],
    "list_knowledge": [
        *({}, {"words": SECRET}, {"session_id": SESSION}, {"layer": "quarantine", "rejected": "too_short"}),
        *({"layer": layer} for layer in ("quarantine", "working", "longterm")),
    ],
    "edit_knowledge": [{"content": "x"}],
    "digest_quarantine": [{"days": 7}],
    "stores_apply": [{"graph": SECRET}],
    "stores_list": [{}, {"run_id": ""}],
    "stores_items": [{"name": STORE, "limit": 500}],
    "stores_attachment": [{"name": STORE, "attachment_id": "0" * 64}],
    "stores_retrieve": [{"name": STORE, "query": SECRET, "top_k": 1_000}],
    "stores_update": [{"name": STORE, "role": AGENT, "inputs_text": SECRET}],
    "stores_map": [{}, {"graph": SECRET}],
    "stores_log": [{"graph": "own", "node_id": "own", "operation_type": "UPDATE", "stage": "gen"}],
    "stores_operations": [{}, {"graph": SECRET}],
    **dict.fromkeys(
        "stores_show stores_load stores_save stores_reindex stores_delete stores_files".split(), OF_STORE
    ),
    **dict.fromkeys("list_agents list_erasures run_job describe_memory_node list_digests".split(), ALL),
}
#: The same, of what is named by ids.
ASKING_BY_ID: dict[str, Callable[[Other], list[dict[str, Any]]]] = {
    "call_tool": lambda other: [
        {"type": "function_call", "call_id": "1", "name": name, "arguments": json.dumps(arguments)}
        for name, arguments in (
            ("memory_retrieve", {"agent_id": AGENT, "query": "What?", "timeout": 0.05}),
            ("memory_list", {"agent_id": AGENT}),
            ("memory_get", {"id": _named(other, "node_id")[0]}),
        )
    ],
    "observe": lambda other: [
        {
            "type": "memory.observed",
            "group_id": other.group,
            "agent_id": AGENT,
            "payload": {"description": "x"},
        }
    ],
    **dict.fromkeys(
        ("event_states", "event_states_of_many"), lambda other: [{"ids": _named(other, "event_id")}]
    ),
    "resolve_dead_letters": lambda other: [
        {"action": action, **which}
        for action in ("replay", "discard")
        for which in ({"letter_ids": _named(other, "letter_id")}, {"kind": "intake"})
    ],
    "erase": lambda other: [*OF_AGENT, {"node_ids": _named(other, "node_id")}],
    "ingest_memory": lambda other: [{"content": "x", "group_id": other.group}],
    "run_memory_node": lambda other: [
        {
            "inputs": {"topic": SECRET, **named},
            "properties": {"timeout": 0.05, "relevance_threshold": -1, "max_results": 100},
        }
        for named in ({}, {"group_id": other.group})
    ],
    "promote_memory": lambda other: [
        {"entry_ids": _named(other, "entry_id"), **more} for more in ({}, {"preview": True}, {"text": "x"})
    ],
    "demote_memory": lambda other: [{"knowledge_ids": _named(other, "knowledge_id")}],
    "check_memory": lambda other: [
        {"entry_ids": _named(other, "entry_id"), "verdict": verdict} for verdict in ("true", "refuted")
    ],
}


def asked_of(operation: ApiOperation, other: Other) -> list[dict[str, Any]]:
    if operation.query is None and operation.body is None:
        return [{}]
    by_id = ASKING_BY_ID.get(operation.id)
    # A new operation: say how it asks for all there is.
    return ASKING[operation.id] if by_id is None else by_id(other)


def _appointments(connection: Connection, group: str) -> None:
    """A schedule, a heartbeat and an alert that all say the secret."""
    who, now = Actor(group, "test"), datetime.now(UTC)
    asked = CreateSchedule(agent_id=AGENT, kind="cron", cron="0 9 * * *", task=SECRET, tz="UTC")
    done_within(connection, schedule_actions.create_schedule, who, asked)
    done_within(connection, heartbeat_actions.configure_heartbeat, who, ConfigureHeartbeat(agent_id=AGENT))
    said: dict[str, Any] = {"title": SECRET, "content": SECRET, "urgency": "high", "channel": "ui"}
    new = NewAlert(agent_id=AGENT, source="schedule", deliver_at=now, **said)
    heartbeats.add(connection, group, [new], now)


def asked_of_conversations(operation: ApiOperation, other: Other) -> list[dict[str, Any]]:
    """Its first example, with everything of the other group that it can name."""
    if operation.body is None:
        return [{}]
    example = next(iter(operation.examples.values()), {})
    if operation.id in WRITING:
        return [example]
    fitting = {"agent_id": AGENT, "id": str(other.ids["id"][0])}
    fitting |= {"query": SECRET, "pattern": SECRET, "scope": URI, "uri": URI}
    named = {name: value for name, value in fitting.items() if name in operation.body.model_fields}
    wider = [{name: f"agent://{AGENT}"} for name in ("uri", "scope") if name in named]
    return [{**example, **named, **more} for more in ({}, *wider)]


def requests_of(operation: ApiOperation, other: Other) -> list[tuple[str, dict[str, Any]]]:
    """(path, what is asked) of all that is to be tried with an operation."""
    if operation.id == "perform_action":
        return [request for action in ACTIONS.values() for request in requests_by_name(action, other)]
    paths = [operation.url]
    for name in operation.parts:
        # A new kind of id: make one in ``Other``.
        values = [NOT_OF_A_GROUP[name]] if name in NOT_OF_A_GROUP else other.ids[name]
        paths = [
            path.replace(f"{{{name}}}", quote(str(value), safe="")) for path in paths for value in values
        ]
    of_examples = operation.tag in ("conversations", "growth")
    asked = asked_of_conversations(operation, other) if of_examples else asked_of(operation, other)
    return [(path, one) for path in paths for one in asked]


def requests_by_name(action: Action[Any, Any], other: Other) -> list[tuple[str, dict[str, Any]]]:
    """An action asked by its name, for each kind of id that its request may have, with what it must have
    besides.
    """
    ids: dict[str, Any] = {name: str(values[0]) for name, values in other.ids.items()}
    ids |= {f"{name}s": [str(value) for value in values] for name, values in other.ids.items()}
    if action.name in WRITING_ACTIONS:
        ids["agent_id"] = "own"
    fitting = {**ids, "proposal": "What?", "content": "x", "verdict": "refuted", "action": "discard"}
    fitting |= {"kind": "intake"}
    fields = action.request.model_fields
    must = {name: fitting[name] for name, field in fields.items() if field.is_required() and name in fitting}
    asked = [
        {**must, name: value}
        for name in fields
        if name in ids
        for value in (map(str, other.ids["id"]) if name == "id" else [ids[name]])
    ]
    asked = asked or [must]
    return [(f"{PREFIX}/actions/{action.name}", one) for one in asked]


def ask(client: Any, key: str, operation: ApiOperation, path: str, asked: dict[str, Any]) -> Any:
    what: dict[str, Any] = {"json": asked} if operation.body is not None else {"query_string": asked}
    return client.open(path, method=operation.method, headers={"Authorization": f"Bearer {key}"}, **what)


def leaks(answer: Any, other: Other, asked: str) -> list[str]:
    """What of the other group stands in an answer and was not in the question."""
    if answer.status_code in SILENT and answer.mimetype == "application/problem+json":
        told = answer.json["detail"]  # the path, and what was asked for, may come back
        return [SECRET] if SECRET in told and SECRET not in asked else []
    known = [SECRET, other.group, *map(str, other.everything)]
    return [one for one in known if one in answer.text and one not in asked]


def is_empty(answer: Any) -> bool:
    """Whether a good answer is empty: no list in it has an entry, but for the events whose state is
    unknown.
    """
    found = answer.json
    if found is None:  # no memory of this id
        return True
    if found.get("resolved"):
        return False
    if "history_context" in found.get("outputs", {}):  # its inputs come back
        return not found["outputs"]["history_context"]
    if found.get("rows") and all(
        isinstance(one, dict) and one.get("state") == "unknown" for one in found["rows"]
    ):
        return True
    rows = [
        value for name, value in found.items() if isinstance(value, list) and name not in ("queues", "tiers")
    ]
    return not any(entry is not None for row in rows for entry in row) and not any(
        found.get("counts", {}).values()
    )


CHANGEABLE = {
    "memory_nodes": "node_id, archived_at",
    "events": "event_id",
    "agents": "agent_id, settings",
    "dead_letters": "letter_id, state",
    "reflections": "reflection_id, state",
    "erasures": "erasure_id, state",
    "pending_work": "kind, subject_id",
    "quarantine_logs": "entry_id, promoted_at, deleted_at, flags",
    "digests": "digest_id",
    "knowledge": "knowledge_id, demoted_at",
    "knowledge_history": "history_id",
    "stores": "store_id, config",
    "store_items": "item_id",
    "schedules": "schedule_id, state",
    "alerts": "alert_id, acknowledged_at",
    "heartbeats": "agent_id, enabled, interval_minutes",
}


def state_of(other: Other) -> Any:
    """Everything of the other group that a request could change."""
    with unit_of_work() as connection:
        return {
            table: [tuple(row) for row in connection.exec_driver_sql(statement, (other.group,))]
            for table, columns in CHANGEABLE.items()
            for statement in (f"SELECT {columns} FROM {table} WHERE group_id = %s ORDER BY {columns}",)
        }


def try_everything(client: Any, key: str, other: Other) -> tuple[dict[str, int], list[str]]:
    """(operation → how many requests were tried, what leaked)."""
    tried: dict[str, int] = {}
    leaked = []
    last = {*WRITING, "perform_action"}  # from then on there is something in the asker's own group
    for operation in sorted(OPERATIONS, key=lambda one: one.id in last):
        for path, asked in requests_of(operation, other):
            answer = ask(client, key, operation, path, asked)
            tried[operation.id] = tried.get(operation.id, 0) + 1
            said = f"{operation.id} {path} {json.dumps(asked, ensure_ascii=False)}"
            found = leaks(answer, other, said)
            if found:
                leaked.append(f"{said} → {answer.status_code}: {', '.join(found)}")
            names_one = set(operation.parts) - NOT_OF_A_GROUP.keys() and operation.scope != "operator"
            nobody_answers = operation.id in BY_WORKERS and answer.status_code == 504
            if names_one and answer.status_code != 404 and not nobody_answers:
                leaked.append(f"{said} → {answer.status_code} instead of 404")
            lists = not operation.parts and operation.id not in OF_NO_GROUP | WRITING
            if lists and answer.status_code == 200 and not is_empty(answer):
                leaked.append(f"{said} → not empty: {answer.text[:200]}")
    return tried, leaked


@pytest.fixture
def own(web_app: Flask, api_key: Callable[..., str], group: str) -> tuple[Any, str]:
    """A program of this group, and its key."""
    return web_app.test_client(), api_key(group, "publish", "read", "admin")


def test_nothing_of_another_group_comes_out(own: tuple[Any, str], other: Other) -> None:
    before = state_of(other)
    tried, leaked = try_everything(*own, other)
    assert leaked == []
    assert set(tried) == {operation.id for operation in OPERATIONS}
    assert state_of(other) == before


def test_row_level_security_alone_keeps_it(
    own: tuple[Any, str], group: str, other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every query asks for the other group's rows, in the scope of the own one."""
    monkeypatch.setattr(running, "group_of", lambda _identity: other.group)
    monkeypatch.setattr(running, "scope_of", lambda _context: for_groups(group))
    before = state_of(other)
    tried, leaked = try_everything(*own, other)
    # These repeat the group that was asked for, the tool in what it refuses; what it lists, GET /nodes shows
    # as well.
    told_by_name = f"{PREFIX}/stats", f"{PREFIX}/actions/stats.show", '"name": "memory_list"'
    assert [one for one in leaked if not any(path in one for path in told_by_name)] == []
    assert set(tried) == {operation.id for operation in OPERATIONS}
    assert state_of(other) == before


def test_the_trial_would_notice(web_app: Flask, api_key: Callable[..., str], other: Other) -> None:
    """With the other group's own key everything comes out: the requests are such that something could."""
    client, key = web_app.test_client(), api_key(other.group, "publish", "read", "admin")
    reads = [one for one in OPERATIONS if one.method == "GET" and one.scope != "operator"]
    for operation in (one for one in reads if one.id not in OF_NO_GROUP | BY_WORKERS):
        answers = [ask(client, key, operation, path, asked) for path, asked in requests_of(operation, other)]
        assert any(answer.status_code == 200 and leaks(answer, other, "") for answer in answers), operation.id


def test_operators_alone_may_name_a_group() -> None:
    identity = Identity("key:x", frozenset({"read"}), frozenset({"a"}))
    assert identity.sees("a")
    assert not identity.sees("b")
