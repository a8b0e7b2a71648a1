"""Embedders, queues, brokers, and what operators are told: as people reported it of this and other
services.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
import yaml
from kombu.transport import get_transport_cls

from engine.providers import embedder_specs
from engine.providers.embedder_specs import LOCAL_CHARS, embedding_threads, sized
from engine.providers.embedders import (
    FEW,
    MAX_CHARS,
    EmbeddingTurns,
    HashingEmbedder,
    forget_questions,
    giving_way,
    own_embedder,
    query_vectors,
)
from jiyi import __version__
from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.operations import Tick
from jiyi.protocol.wire import broker
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.valkey import valkey
from models.memory.work import EMBED
from models.operations.health_checks import Check
from models.operations.worker_liveness import Worker, WorkerReport
from tasks.framework import work
from tasks.framework.work import run_until_idle
from tasks.memory import embed
from tests import misbehaving
from tests.integration.memory.test_inbox import observed, rows, save
from workers import doctor
from workers.embedded.postgres import INITDB_OPTIONS

ROOT = Path(__file__).parents[2]


class _ChannelOfDeadServer:
    """A channel of kombu whose Valkey has been killed."""

    unacked_key, unacked_index_key = "unacked", "unacked_index"
    do_restore = False

    @contextmanager
    def conn_or_acquire(self, _client: object = None) -> Iterator[redis.Redis]:
        with redis.Redis(unix_socket_path="/nowhere") as client:
            yield client


@pytest.mark.parametrize("settle", ["ack", "reject"])
def test_a_worker_whose_tasks_end_while_valkey_is_away_takes_messages_again(settle: str) -> None:
    """https://github.com/celery/celery/issues/8030: killed with two tasks in hand, Valkey was back in 3 s,
    the worker deaf for 84.
    """
    broker.register()
    in_hand: Any = get_transport_cls("redis").Channel.QoS(
        _ChannelOfDeadServer(), prefetch_count=2
    )  # what workers have
    in_hand._delivered.update({"one": None, "two": None})
    assert not in_hand.can_consume()
    for tag in ("one", "two"):
        with pytest.raises(redis.ConnectionError):
            getattr(in_hand, settle)(tag)
    assert in_hand.can_consume()  # so that it reads its connection, sees that it is lost, and connects again


def test_one_answer_of_a_wrong_size_does_not_spoil_a_model_until_the_restart() -> None:
    """A provider answered vectors of 8 values once, first of all; the store has others, and what it has
    counts.
    """
    forget_questions()
    with misbehaving.vendor() as vendor:
        model = own_embedder("compatible", "emb", None, vendor.base_url, "k" * 10, "")
        stored = sized(model, misbehaving.SIZE)
        vendor.script(misbehaving.good(8))
        with pytest.raises(EmbeddingUnavailable, match="8 values, those that are stored have"):
            query_vectors(stored, ["x"])
        assert query_vectors(stored, ["x"])["x"].size == misbehaving.SIZE
        vendor.script(misbehaving.good(8))
        with pytest.raises(EmbeddingUnavailable, match="8 values"):
            stored.passages(["x"])
        assert stored.passages(["x"]).shape == (1, misbehaving.SIZE)
        # A question that was asked before anything was stored: its vector of then is none.
        vendor.script(misbehaving.good(8))
        assert query_vectors(model, ["y"])["y"].size == 8
        assert query_vectors(stored, ["y"])["y"].size == misbehaving.SIZE


def test_a_memory_is_embedded_between_the_chunks_of_a_file_store() -> None:
    """While a folder was indexed 12 of 14 observes of another group were not answered within 10 s."""
    turns, begun, go_on = EmbeddingTurns(), threading.Event(), threading.Event()
    chunks, embedded = [f"chunk {number}" for number in range(3 * FEW)], list[str]()

    def compute(texts: Sequence[str]) -> Float32:
        if texts[0] == "chunk 0":
            begun.set()
            go_on.wait()
        embedded.extend(texts)
        return np.ones((len(texts), 2), np.float32)

    def index() -> None:
        with giving_way():
            assert turns.passages(chunks, compute).shape == (3 * FEW, 2)

    def observe() -> None:
        turns.passages(["a memory", "another one"], compute)

    indexing, observing = threading.Thread(target=index), threading.Thread(target=observe)
    indexing.start()
    begun.wait()
    observing.start()
    while not turns.waiting[False]:
        time.sleep(0.001)
    go_on.set()
    indexing.join()
    observing.join()
    assert embedded == [*chunks[:FEW], "a memory", "another one", *chunks[FEW:]]


@pytest.mark.usefixtures("database")
def test_texts_of_stores_leave_a_thread_of_the_embedding_worker_to_memories() -> None:
    """Both threads of the worker were at chunks of a file store."""
    kinds = "embed_items", "embed_values"
    marks = [valkey_keys.wake(kind) for kind in kinds]
    valkey().delete(*marks)
    assert embedding_threads(get_settings()) == 2
    beside = work.BesideMemories()
    with beside.enter("embed_items") as first:
        for kind in (*kinds, "embed_items"):
            with beside.enter(kind) as another:
                assert (first, another) == (True, False)
        assert not valkey().exists(*marks)
    assert valkey().exists(*marks) == len(kinds), "both are woken"
    valkey().delete(*marks)
    with beside.enter("embed_values") as first:
        assert first


@pytest.mark.usefixtures("database", "nothing_owed")
def test_long_memories_are_embedded_a_few_at_a_time_and_those_of_others_between_them(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F021: 64 texts of 3,000 Chinese characters took longer than a task may: they had no vector, nor had
    what others said meanwhile.
    """
    calls: list[list[str]] = []
    passages = HashingEmbedder.passages

    def counted(self: HashingEmbedder, texts: Sequence[str]) -> Float32:
        calls.append(list(texts))
        return passages(self, texts)

    monkeypatch.setattr(HashingEmbedder, "passages", counted)
    long = [f"{number:03}" + "茶" * MAX_CHARS for number in range(20)]
    save(*(observed(group, text) for text in long), observed(f"{group}-other", "short"))
    run_until_idle(EMBED, embed)
    assert "short" in calls[0]
    assert sorted(text for texts in calls for text in texts) == sorted([*long, "short"])
    assert max(sum(min(len(text), MAX_CHARS) for text in texts) for texts in calls) <= LOCAL_CHARS
    lost = "SELECT count(*) AS lost FROM dead_letters WHERE group_id = :g"
    assert (left(group), rows(lost, g=group)) == (0, [{"lost": 0}])


def left(group: str) -> Any:
    """Memories without a vector."""
    sql = "SELECT count(*) AS left FROM pending_work WHERE kind = 'embed' AND group_id = :g"
    return rows(sql, g=group)[0]["left"]


@pytest.mark.usefixtures("database", "nothing_owed")
def test_a_memory_that_is_longer_than_a_run_takes_is_embedded(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder_specs, "LOCAL_CHARS", 1)
    save(observed(group, "one of many characters"), observed(group, "another one"))
    run_until_idle(EMBED, embed)
    assert left(group) == 0


@pytest.mark.parametrize(
    ("provider", "recorded", "actual", "state", "sentence"),
    [
        (
            "c",
            "2.36",
            "2.41",
            "attention",
            r'REINDEX DATABASE CONCURRENTLY "jiyi", then ALTER DATABASE "jiyi" REFRESH COLLATION VERSION',
        ),
        ("c", "2.36", "2.36", "ok", "libc en_US.utf8, version 2.36; look again after updates"),
        ("b", "1", "1", "ok", "builtin en_US.utf8, version 1$"),
        ("c", None, None, "ok", "does not change"),
    ],
)
def test_doctor_tells_that_an_update_changed_the_order_of_texts(
    provider: str, recorded: str | None, actual: str | None, state: str, sentence: str
) -> None:
    """Another glibc under the indexes of a container: https://wiki.postgresql.org/wiki/Locale_data_changes."""
    check = doctor.judge_collation("jiyi", provider, "en_US.utf8", recorded, actual)
    assert check.state == state
    assert re.search(sentence, check.detail)


def test_new_databases_of_containers_order_texts_as_the_embedded_one_does() -> None:
    """None of the 172 columns under indexes has a collation of its own, so the database's counts."""
    wanted = [option for option in INITDB_OPTIONS if "locale" in option or "encoding" in option]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    assert sorted(compose["services"]["postgres"]["environment"]["POSTGRES_INITDB_ARGS"].split()) == sorted(
        wanted
    )


@pytest.mark.usefixtures("database")
def test_doctor_alone_checks_everything_and_says_it_with_its_exit_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`jiyi doctor` had one subcommand, for the search in large agents; nothing told in one place whether all
    is well.
    """
    status = doctor.main(["--json"])
    told = json.loads(capsys.readouterr().out)
    states = {check["name"]: check["state"] for check in told["checks"]}
    assert status == doctor.EXITS[told["state"]]
    assert states.keys() >= {
        "Valkey",
        "Broker",
        "Workers",
        "Schedule",
        "Dead letters",
        "Jobs",
        "Backups",
        "Versions",
    }
    of_database = [states[f"Database{part}"] for part in ("", " sessions", " revision", " collation")]
    assert of_database == ["ok"] * 4
    assert doctor.main([]) == status
    assert "builtin C.UTF-8" in capsys.readouterr().out


def test_doctor_tells_what_is_left_of_an_older_version_and_of_a_failed_backup() -> None:
    old, new = (
        Worker(f"here:{version}", "upkeep@here", ("upkeep",), 1.0, WorkerReport(version))
        for version in ("0.0.9", __version__)
    )
    assert doctor.versions([new]).state == "ok"
    assert doctor.versions([old, new]).state == "attention"
    assert doctor.versions(None).state == "unknown"
    now, settings = datetime.now(UTC), get_settings()
    assert doctor.backups(settings, {}).state == "ok"  # switched off
    failed = Tick(
        job="verify_backup", slot=now, state="failed", error="the newest backup is 9 days old, more than 7"
    )
    assert doctor.backups(settings, {"verify_backup": failed}) == Check(
        "Backups", "attention", failed.error or ""
    )
    assert doctor.backups(settings, None).state == "unknown"
