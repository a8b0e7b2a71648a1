"""models.retrieval.agent_index: an agent's memories in memory, kept as the database has them, whatever is
committed when.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import Connection, text

from engine.retrieval.corpus import Corpus, language_code
from engine.retrieval.lexicon import Lexicon
from engine.retrieval.relevance import hybrid
from jiyi.protocol.events import Event
from jiyi.protocol.retrieval import Answer, Filters, RetrievalRequest
from jiyi.protocol.wire.vectors import Float32
from models.db import valkey_keys
from models.db.connection import engine, reading, unit_of_work
from models.db.valkey import valkey
from models.memory import access as buffer
from models.memory import nodes
from models.memory.agents import AgentRecord, find_agents
from models.memory.filters import of_question
from models.memory.inbox import store
from models.retrieval import agent_index, index_cache, records
from models.retrieval.agent_index import AgentIndex, IndexKey
from models.retrieval.columns import CENTRE_STEPS
from models.retrieval.index_rows import AT_ONCE, TOGETHER, TYPES, IndexScope, all_rows, lists_of
from tasks.retrieval.retrieve import retrieve
from tests.integration.memory.accesses import touch
from tests.integration.memory.test_inbox import observed, save
from tests.integration.threads import Threads
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("own_valkey")

T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
MODEL, DIMENSIONS = "three-dimensions", 3
#: Values of the vectors of :func:`plain`.
PLAIN_DIMENSIONS = 24
#: Columns that depend on the rows' order in their last digits.
INEXACT = {"centre_dot", "centred_length"}


def made(
    group: str, description: str, *, hours: float = 0, vector: list[float] | None = None, **fields: Any
) -> Event:
    if vector is not None:
        fields = {"vector": vector, "embedding_model": MODEL, **fields}
    return observed(group, description, occurred_at=T0 + timedelta(hours=hours), **fields)


def refreshed(index: AgentIndex) -> AgentIndex:
    with unit_of_work() as connection:
        index.refresh(connection)
    return index


def index_of(group: str, agent_id: str = "klaus", dimensions: int = DIMENSIONS) -> AgentIndex:
    return AgentIndex(IndexKey(group, agent_id, MODEL, dimensions))


def built_at_once(group: str, dimensions: int = DIMENSIONS) -> AgentIndex:
    return refreshed(index_of(group, dimensions=dimensions))


def change(connection: Connection, setting: str, node_id: UUID, **values: Any) -> None:
    """Whatever changes a row says so in changed_xid, or no index notices: a rule for every UPDATE of
    memory_nodes.
    """
    statement = f"UPDATE memory_nodes SET {setting}, changed_xid = pg_current_xact_id() WHERE node_id = :id"
    connection.execute(text(statement), {"id": node_id, **values})


def embed(connection: Connection, node_id: UUID, vector: list[float], model: str = MODEL) -> None:
    nodes.fill_embeddings(connection, [node_id], [np.array(vector, dtype=np.float32)], model)


def ids_of(index: AgentIndex) -> list[UUID]:
    return [index.node_id(row) for row in range(index.size)]


def state(index: AgentIndex) -> dict[UUID, tuple[Any, ...]]:
    """All that is known of each node, without the numbers that depend on what was met first."""
    names = {code: name for name, code in index.sessions.items()}
    subjects = {code: name for name, code in index.subjects.items()}
    columns = [
        name
        for name in agent_index._COLUMNS
        if index.columns[name].ndim == 1 and name not in INEXACT | {"session", "subject"}
    ]
    corpus = index.corpus()
    rows: dict[UUID, tuple[Any, ...]] = {}
    for row, node_id in enumerate(ids_of(index)):
        near = [None if at < 0 else index.node_id(at) for at in corpus.near[row]]
        rows[node_id] = (
            {name: index.columns[name][row].item() for name in columns},
            names.get(index.columns["session"][row]),
            subjects.get(index.columns["subject"][row]),
            index.keywords(row),
            index.vectors[row].tolist() if index.columns["has_vector"][row] else None,
            near,
        )
    return rows


def assert_same(index: AgentIndex, other: AgentIndex) -> None:
    assert state(index) == state(other)
    mine, theirs = index.corpus(), other.corpus()
    place = {node_id: row for row, node_id in enumerate(ids_of(index))}
    order = [place[node_id] for node_id in ids_of(other)]
    for name in ("lengths", "centre_dots", "shares", "created"):
        assert getattr(mine, name)[order] == pytest.approx(getattr(theirs, name), abs=1e-6), name
    # A root enlarges the rounding of float32 where it is small, so what it is taken of is compared.
    assert mine.centred_lengths[order] ** 2 == pytest.approx(theirs.centred_lengths**2, abs=1e-6)
    assert mine.centre == pytest.approx(theirs.centre, abs=1e-6)
    for question in (["klaus"], ["read", "book"], ["书店"]):
        assert mine.lexicon.bm25(question)[order] == pytest.approx(theirs.lexicon.bm25(question))
    assert [index.node_id(row) for row in index.access_order()] == [
        other.node_id(row) for row in other.access_order()
    ]


# Step by step


def test_an_index_refreshed_step_by_step_equals_one_built_at_once(group: str) -> None:
    index = index_of(group)
    chance = random.Random(7)
    known: list[UUID] = []
    archived: set[UUID] = set()
    without: list[UUID] = []
    for step in range(12):
        batch = [
            made(
                group,
                f"Klaus reads book {step}.{i} 在书店",
                hours=chance.randrange(100),
                session_id=f"s{i % 3}" if i else None,
                subject=chance.choice(["Klaus", "林岚", None]),
                keywords=[f"k{i}"],
                poignancy=chance.randint(1, 10),
                vector=[chance.gauss(0, 1) for _ in range(3)] if i % 2 else None,
                node_type=("event", "thought", "chat")[i % 3],
            )
            for i in range(30)
        ]
        save(*batch)
        known += [event.event_id for event in batch]
        without += [event.event_id for event in batch if event.payload.vector is None]
        refreshed(index)
        with unit_of_work() as connection:
            for node_id in chance.sample(without, 5):
                embed(connection, node_id, [chance.gauss(0, 1) for _ in range(3)])
                without.remove(node_id)
            if step % 5 == 4:  # rarely: the index starts over for it
                left = chance.choice(known)
                archived.add(left)
                change(connection, "archived_at = now()", left)
            change(connection, "depth = depth + 1", chance.choice(known))
            change(connection, "expires_at = :at", chance.choice(known), at=T0)
        if step % 3 == 0:  # some changes are met together, some apart
            assert_same(refreshed(index), built_at_once(group))
    assert_same(refreshed(index), built_at_once(group))
    assert index.size == len(known) - len(archived) >= 350  # more than there was room for at first


def test_without_changes_a_refresh_keeps_what_was_worked_out_and_what_is_rolled_back_is_never_seen(
    group: str,
) -> None:
    save(made(group, "one", vector=[1, 0, 0]))
    index = built_at_once(group)
    corpus, order = index.corpus(), index.access_order()
    with engine().connect() as connection:
        store(connection, [made(group, "never")])
        refreshed(index)
        connection.rollback()
    refreshed(index)
    assert index.corpus() is corpus
    assert index.access_order() is order
    save(made(group, "two"))
    assert len(refreshed(index).corpus()) == 2


def test_archiving_and_a_vector_by_another_model_are_seen_when_the_change_says_so(group: str) -> None:
    kept, gone, other = (
        made(group, name, vector=[1, place, 0]) for place, name in enumerate(("kept", "gone", "other"))
    )
    save(kept, gone, other)
    index = built_at_once(group)
    index.corpus()
    with unit_of_work() as connection:
        change(connection, "archived_at = now()", gone.event_id)
        change(connection, "embedding_model = 'another'", other.event_id)
    rows = refreshed(index).select(of_question(Filters(), T0))
    assert [index.node_id(row) for row in rows] == [kept.event_id, other.event_id]
    assert_same(index, built_at_once(group))


def test_a_vector_of_another_size_counts_as_none(group: str) -> None:
    save(made(group, "first", vector=[1, 0, 0]), made(group, "wider", vector=[1, 0, 0, 1]))
    late = made(group, "narrower, later")
    save(late)
    index = built_at_once(group)
    with unit_of_work() as connection:
        embed(connection, late.event_id, [1, 0])
    refreshed(index)
    assert index.columns["has_vector"].tolist() == [True, False, False]
    assert index.columns["embedded"].tolist() == [True, True, True]
    assert index.corpus().lengths.tolist() == [1, 0, 0]


def test_tokens_that_are_filled_in_later_are_found_at_once_and_lose_no_row(group: str) -> None:
    old, *others = events = [made(group, f"Klaus reads book {i}", vector=[1, i, 0]) for i in range(5)]
    save(*events)
    with unit_of_work() as connection:  # as migration 0002 found them
        for event in (old, others[2]):
            change(connection, "tokens = ''", event.event_id)
    index = built_at_once(group)
    assert index.corpus().lexicon.bm25(["klaus"]).tolist().count(0) == 2
    accessed = T0.timestamp() + 60  # which the database does not know yet
    records.publish_accesses(group, "klaus", [old.event_id], accessed)
    refreshed(index)
    with unit_of_work() as connection:
        change(connection, "tokens = 'klaus filled'", others[2].event_id)
    refreshed(index)
    assert index.columns["last_accessed"].max() == accessed
    assert set(ids_of(index)) == {event.event_id for event in events}
    (found,) = np.flatnonzero(index.corpus().lexicon.bm25(["filled"]))
    assert index.node_id(found) == others[2].event_id
    assert_same(index, built_at_once(group))


# To the last bit

_PLAIN = text("""
    SELECT n.node_id, n.type, n.is_idle, strpos(n.embedding_key, 'idle') > 0 AS says_idle, n.archived_at IS
    NOT NULL AS archived,
        extract(epoch FROM n.created_at)::float8 AS created, coalesce(extract(epoch
        FROM n.expires_at)::float8, 'infinity') AS expires,
        coalesce(n.poignancy, 0) AS poignancy, extract(epoch
        FROM a.last_accessed)::float8 AS last_accessed, n.session_id, n.subject,
        n.keywords_lower, n.tokens, n.embedding, n.node_count
    FROM memory_nodes n JOIN node_access a USING (node_id, group_id) WHERE n.group_id = :group
    ORDER BY n.node_count
""")


def diverse(group: str, count: int) -> list[Event]:
    chance = random.Random(11)
    words = [*"kiln clay glaze tea harbour ferry Anna idle".split(), "陶瓷", "喝茶", "林岚", "ok", "😀"]
    return [
        made(
            group,
            " ".join(chance.choices(words, k=chance.randint(1, 9))),
            hours=chance.random() * 1_000,
            session_id=chance.choice(["s1", "line\nbreak", 's"3', None]),
            subject=chance.choice(["Anna", "ANNA", "林岚", "", None]),
            keywords=chance.sample(["Tea", "a,b", "茶", "{x}"], chance.randint(0, 3)),
            poignancy=chance.choice([None, 1.25, 7.0]),
            node_type=chance.choice(["event", "thought", "chat"]),
            expires_at=chance.choice([None, T0 + timedelta(microseconds=chance.randrange(10**12))]),
            vector=chance.choice([None, [chance.gauss(1, 1) for _ in range(PLAIN_DIMENSIONS)]]),
        )
        for _ in range(count)
    ]


def plain_vector(row: Any) -> Float32:
    return (
        np.zeros(PLAIN_DIMENSIONS, np.float32)
        if row.embedding is None
        else np.array(row.embedding.to_list(), np.float32)
    )


@pytest.fixture
def plain(group: str) -> list[Any]:
    """Rows as a plain SELECT reads them, more than are read at once."""
    save(*diverse(group, AT_ONCE + 77))
    with unit_of_work() as connection:
        return list(connection.execute(_PLAIN, {"group": group}))


def test_columns_are_what_a_plain_select_reads(group: str, plain: list[Any]) -> None:
    index = built_at_once(group, PLAIN_DIMENSIONS)
    assert ids_of(index) == [row.node_id for row in plain]
    for name in (
        "created",
        "expires",
        "last_accessed",
        "poignancy",
        "is_idle",
        "says_idle",
        "archived",
        "node_count",
    ):
        assert index.columns[name].tolist() == [getattr(row, name) for row in plain], name
    assert [TYPES[code] for code in index.columns["type"]] == [row.type for row in plain]
    assert [index.keywords(row) for row in range(index.size)] == [
        frozenset(row.keywords_lower) for row in plain
    ]
    codes = {code: name for name, code in index.sessions.items()}
    # What was told without a session has that of its hour, which is none of the codes.
    assert [codes.get(code) for code in index.columns["session"].tolist()] == [
        row.session_id for row in plain
    ]
    assert index.columns["has_vector"].tolist() == [row.embedding is not None for row in plain]
    for vector, row in zip(index.vectors, plain, strict=True):
        assert np.array_equal(vector, plain_vector(row))


def test_all_rows_come_in_order_however_many_were_known_of(group: str, plain: list[Any]) -> None:
    """More may have been stored since, and some may be gone."""
    left = [*plain[:TOGETHER], *plain[3 * TOGETHER :]]
    with unit_of_work() as connection:
        for row in plain[TOGETHER : 3 * TOGETHER]:  # a part of those that are gathered together is empty
            change(connection, "archived_at = now(), archived_reason = 'forgotten'", row.node_id)
        for known in (0, 1, TOGETHER, TOGETHER + 1, AT_ONCE, AT_ONCE + 1, AT_ONCE + 77, 3 * AT_ONCE):
            parts = list(
                all_rows(connection, IndexScope(group, "klaus", MODEL), archived=False, expected=known)
            )
            assert [node_id for part in parts for node_id in part.ids] == [
                row.node_id.bytes for row in left
            ], known
            assert [tokens for part in parts for tokens in part.tokens] == [row.tokens for row in left], known
            assert [keywords for part in parts for keywords in lists_of(part.keywords)] == [
                row.keywords_lower for row in left
            ], known


def _session(codes: dict[str, int], row: Any) -> int:
    """Its code, -1 without one; a thought without one has one to itself."""
    alone = row.session_id is None and row.type == "thought"
    return (
        codes.setdefault(str(row.node_id) if alone else row.session_id, len(codes))
        if alone or row.session_id is not None
        else -1
    )


def test_relevance_over_an_index_is_that_over_plain_rows(group: str, plain: list[Any]) -> None:
    lexicon = Lexicon()
    lexicon.extend(row.tokens for row in plain)
    vectors = np.array([plain_vector(row) for row in plain], dtype=np.float32)
    has = np.flatnonzero(vectors.any(axis=1))
    step = max(1, 1 << max(int(has.size).bit_length() - CENTRE_STEPS.bit_length(), 0))
    sessions: dict[str, int] = {}
    corpus = Corpus.of(
        vectors,
        lexicon,
        languages=[language_code(row.tokens) for row in plain],
        sessions=[_session(sessions, row) for row in plain],
        created=[row.created for row in plain],
        subjects=[row.subject for row in plain],
        trusted=has[: has.size - has.size % step],
    )
    index = built_at_once(group, PLAIN_DIMENSIONS)
    queries = np.random.default_rng(3).standard_normal((4, PLAIN_DIMENSIONS)).astype(np.float32)
    questions = [
        "Where did Anna drink tea? And who took the ferry to the harbour?",
        "林岚喝茶了吗？",
        "ok",
        "clay from the kiln, glaze",
    ]
    for question, query in zip(questions, queries, strict=True):
        for vector in (query, None):
            found, wanted = (
                hybrid(one, question, vector, lambda _: queries[0], T0) for one in (index.corpus(), corpus)
            )
            for part in ("total", "dense", "lexical", "second_hop", "neighbours", "named"):
                assert np.array_equal(getattr(found, part), getattr(wanted, part)), (question, part)


# Seen with the agent's own row


def seen(group: str, agent_id: str = "klaus") -> AgentRecord:
    with reading() as connection:
        found = find_agents(connection, group, agent_id)
    assert found is not None
    return found


def test_an_agent_that_has_not_changed_costs_no_look_at_its_memories(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(made(group, "one", vector=[1, 0, 0]), made(group, "two"))
    index = index_of(group)
    with reading() as connection:
        index.refresh(connection, seen(group))
        assert index.size == 2
        while not oldest_running_is_past(index, seen(group)):  # whatever else ran while it was read is over
            index.refresh(connection, seen(group))
        with monkeypatch.context() as patch:
            patch.setattr(index, "_read_changed", None)
            index.refresh(connection, seen(group))
        save(made(group, "three"))
        index.refresh(connection, seen(group))
    assert_same(index, built_at_once(group))


def oldest_running_is_past(index: AgentIndex, agent: AgentRecord) -> bool:
    return agent.changed_xid < index.horizon


@pytest.mark.parametrize("reads_between", [False, True])
def test_what_an_earlier_transaction_commits_after_a_later_one_is_not_missed(
    group: str, *, reads_between: bool
) -> None:
    """New rows, changes of old ones, and an agent's own row that says when it has changed."""
    first, second = made(group, "first"), made(group, "second")
    late, soon = made(group, "late", vector=[1, 0, 0]), made(group, "soon", vector=[0, 1, 0])
    save(first, second)
    index = built_at_once(group)
    with ExitStack() as stack:
        earlier, later = (stack.enter_context(engine().connect()) for _ in range(2))
        reader = stack.enter_context(reading())
        assert xid_of(earlier) < xid_of(later)
        embed(later, second.event_id, [0, 1, 0])
        store(later, [soon])
        later.commit()

        def look() -> None:
            for _ in range(2):
                index.refresh(reader, seen(group))
            assert ids_of(index) == [first.event_id, second.event_id, soon.event_id]
            assert index.columns["has_vector"].tolist() == [False, True, True]

        if reads_between:
            look()
        embed(earlier, first.event_id, [1, 0, 0])
        store(earlier, [late])
        if reads_between:
            look()
        earlier.commit()
        index.refresh(reader, seen(group))
    assert set(ids_of(index)) == {event.event_id for event in (first, second, soon, late)}
    assert_same(index, built_at_once(group))


def test_an_access_that_is_told_before_its_memory_is_read_is_kept(group: str) -> None:
    event = made(group, "a")
    save(event, made(group, "b"))
    index, agent = index_of(group), seen(group)
    with reading() as connection:
        index.refresh(connection, agent)
        late = made(group, "late")
        save(late)
        records.publish_accesses(group, "klaus", [late.event_id], T0.timestamp() + 60)
        index.refresh(connection, replace(agent, changed_xid=0))  # as it was before the memory came
        assert index.size == 2
        index.refresh(connection, seen(group))
    assert index.columns["last_accessed"].max() == T0.timestamp() + 60


# Commits out of order


def xid_of(connection: Connection) -> int:
    return int(connection.execute(text("SELECT pg_current_xact_id()::text::bigint")).scalar_one())


# Accesses


def test_accesses_told_by_another_worker_are_seen_at_the_next_refresh_and_never_move_back(group: str) -> None:
    a, b = made(group, "a"), made(group, "b", hours=1)
    save(a, b)
    index, start = built_at_once(group), T0.timestamp()
    for of_group, agent, node_id in (
        (group, "maria", a.event_id),
        (f"{group}-b", "klaus", a.event_id),
        (group, "klaus", UUID(int=1)),
    ):
        records.publish_accesses(
            of_group, agent, [node_id], start + 9_999
        )  # of others, or of an unknown memory
    assert refreshed(index).columns["last_accessed"].tolist() == [start, start + 3600]
    assert index.access_order().tolist() == [0, 1]
    records.publish_accesses(group, "klaus", [a.event_id], start + 7200)
    assert refreshed(index).columns["last_accessed"].tolist() == [start + 7200, start + 3600]
    assert index.access_order().tolist() == [1, 0]
    records.publish_accesses(group, "klaus", [a.event_id, b.event_id], start + 5400)
    with unit_of_work() as connection:
        embed(connection, a.event_id, [1, 0, 0])  # a change of a memory keeps when it was accessed
    # A new index knows what the database does not know yet.
    for one in (refreshed(index), built_at_once(group)):
        assert one.columns["last_accessed"].tolist() == [start + 7200, start + 5400]


@pytest.mark.parametrize("bound", ["KEPT", "KEPT_SECONDS"])
def test_a_reader_that_was_away_for_too_long_catches_up_from_the_database(
    group: str, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = made(group, "a"), made(group, "b")
    save(old, new)
    index = built_at_once(group)
    touch(group, [old.event_id], T0.timestamp() + 60)
    buffer.flush()
    # What was told is gone; nobody was away, though.
    assert refreshed(index).columns["last_accessed"].tolist() == [T0.timestamp()] * 2
    records.publish_accesses(group, "klaus", [new.event_id], T0.timestamp() + 120)
    monkeypatch.setattr(records, bound, 1 if bound == "KEPT" else records.LOOK_BACK - 1)
    assert refreshed(index).columns["last_accessed"].tolist() == [T0.timestamp() + 60, T0.timestamp() + 120]


def test_what_was_told_of_an_agent_is_kept_for_a_number_of_accesses_and_for_a_time(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = valkey_keys.touched(group, "klaus")
    for _ in range(3 * records.KEPT):
        records.publish_accesses(group, "klaus", [UUID(int=1)] * 30, T0.timestamp())
    # Valkey drops whole blocks, of up to a hundred.
    assert records.KEPT <= valkey().xlen(key) <= records.KEPT + 100
    assert 0 < valkey().ttl(key) <= records.FORGOTTEN_AFTER
    monkeypatch.setattr(records, "KEPT_SECONDS", 0)
    records.publish_accesses(group, "klaus", [UUID(int=1)] * 30, T0.timestamp())
    assert valkey().xlen(key) < 100


# Room


def test_the_least_recently_used_go_when_there_is_no_room_and_the_most_recent_stays(group: str) -> None:
    mebibyte, dimensions = 1024**2, 900
    agents = ["a", "b", "c"]
    for agent in agents:
        save(
            *(
                made(group, f"memory {i}", agent_id=agent, vector=[float(i + 1)] * dimensions)
                for i in range(300)
            )
        )
        refreshed(index_cache.index_of(IndexKey(group, agent, MODEL, dimensions)))
    (size,) = {used for _, _, used in index_cache.held()}
    assert mebibyte < size < 2 * mebibyte
    # Used again: b is the least recent now.
    kept = index_cache.index_of(IndexKey(group, "a", MODEL, dimensions))
    with environment(index_max_bytes=str(3 * size)):
        index_cache.make_room()
        assert len(index_cache.held()) == 3
    with environment(index_max_bytes=str(2 * size)):
        index_cache.make_room()
    assert [key.agent_id for key, _, _ in index_cache.held()] == ["c", "a"]
    with environment(index_max_bytes=str(mebibyte)):
        index_cache.make_room()
    assert [(key.agent_id, rows) for key, rows, _ in index_cache.held()] == [("a", 300)]
    assert index_cache.index_of(IndexKey(group, "a", MODEL, dimensions)) is kept
    assert index_cache.index_of(IndexKey(group, "b", MODEL, dimensions)).size == 0


def test_indexes_are_apart_by_group_agent_model_and_size(group: str) -> None:
    names = [
        (group, "a", "m", 3),
        (group, "b", "m", 3),
        (f"{group}-b", "a", "m", 3),
        (group, "a", "n", 3),
        (group, "a", "m", 2),
    ]
    found = {name: index_cache.index_of(IndexKey(*name)) for name in names}
    assert len({id(index) for index in found.values()}) == len(names)
    assert all(index_cache.index_of(IndexKey(*name)) is index for name, index in found.items())


# At the same time


@pytest.fixture
def _hasty_threads() -> Iterator[None]:
    """Threads take turns so often that what is not guarded breaks."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_hasty_threads")
def test_concurrent_retrievals_while_others_write_are_consistent(group: str) -> None:
    stop, written = threading.Event(), []
    seen: list[Answer] = []

    def some(step: int, count: int) -> list[Event]:
        return [
            made(
                group,
                f"memory {step}.{i} of word{step * count + i}",
                session_id=f"s{step}",
                vector=[i + 1, step + 1, 1],
            )
            for i in range(count)
        ]

    def write() -> None:
        for step in range(1, 10_000):
            if stop.is_set():
                return
            batch = some(step, 7)
            save(*batch)
            with unit_of_work() as connection:
                change(connection, "archived_at = now()", batch[0].event_id)
            written.extend(event.event_id for event in batch)
            time.sleep(0.002)

    def ask(thread: int) -> None:
        request = RetrievalRequest(
            group_id=group,
            agent_id="klaus",
            queries=[f"memory of word{thread}", f"word{thread * 3}"],
            now=T0,
            top_k=20,
            vectors=[[1, thread, 1], [0, 1, thread]],
            embedding_model=MODEL,
        )
        for _ in range(12):
            seen.append(retrieve(request))

    first = some(0, 50)
    save(*first)
    save(*(made(f"{group}-other", f"memory of word{i}", vector=[1, i, 1]) for i in range(50)))
    with Threads(9) as pool:
        writer = pool.submit(write)
        readers = [pool.submit(ask, thread) for thread in range(8)]
        try:
            for reader in readers:
                reader.result(200)
        finally:
            stop.set()
        writer.result(60)
    ours = {event.event_id for event in first} | set(written)
    assert len(seen) == 8 * 12
    for one in (one for answer in seen for one in answer.groups):
        scores = [node.score for node in one.retrieved_nodes]
        assert scores == sorted(scores, reverse=True)
        assert len(set(one.accessed_ids)) == len(scores) == 20
        assert set(one.accessed_ids) <= ours
        assert one.debug.total_candidates >= 49
    assert_same(
        refreshed(index_cache.index_of(IndexKey(group, "klaus", MODEL, DIMENSIONS))),
        refreshed(index_of(group)),
    )
