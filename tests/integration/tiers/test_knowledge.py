"""Long-term knowledge: promotion that is all or nothing, demotion and edits with their history, a move to
another model.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from jiyi.errors import EmbeddingUnavailable, NotFound
from jiyi.protocol.knowledge import DemoteBody, EditKnowledge, PromoteBody, Promoted
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from models.operations import embedding_models
from models.queue import stream
from models.tiers import actions, knowledge
from tests.integration.fields import check_fields
from tests.integration.memory.test_inbox import execute, rows
from tests.integration.tiers.outputs import TEXTS, ask, embed, entry, say, tasks, tier
from workers.ephemeral import environment
from workers.migrate import CHECKOUT

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

LONG = "\n\n".join(f"第{number}窑：釉面开裂的原因在土不在火，换了土以后再烧一次。" * 6 for number in range(9))


def promote(group: str, *entries: UUID, **fields: Any) -> Promoted:
    return actions.promote.perform(Actor(group, "Lin"), PromoteBody(entry_ids=list(entries), **fields))


def kept(group: str) -> list[dict[str, Any]]:
    return rows("SELECT * FROM knowledge WHERE group_id = :g ORDER BY created_at, content", g=group)


def in_force(group: str) -> set[str]:
    return {row["content"] for row in kept(group) if row["demoted_at"] is None}


def history(group: str) -> list[tuple[Any, ...]]:
    found = rows("SELECT * FROM knowledge_history WHERE group_id = :g ORDER BY history_id", g=group)
    return [(row["action"], row["actor"], row["before"], row["after"]) for row in found]


# Promotion


def test_promoting_an_entry_stores_it_once_and_marks_where_it_came_from(group: str) -> None:
    (one,) = say(
        group,
        TEXTS[0],
        session_id="s1",
        node_id="judge",
        node_type="verdict",
        metadata={"round": 2},
        agent_id="Ada",
    )
    done = promote(group, one, reason="it held in March, too")
    assert (done.entries, done.already, [piece.known for piece in done.pieces]) == ([one], [], [False])
    (row,) = kept(group)
    check_fields(row, content=TEXTS[0], session_id="s1", agent_id=None, kind="verdict")
    said = row["metadata"]
    expected = {
        "source": "promotion",
        "node_id": "judge",
        "said_by": "Ada",
        "round": 2,
        "entry_ids": [str(one)],
        "piece": 1,
        "pieces": 1,
    }
    assert {name: said[name] for name in expected} == expected
    assert said["promoted_at"] == row["promoted_at"].isoformat()
    assert entry(one)["promoted_at"] == row["promoted_at"]
    assert history(group) == [("promoted", "Lin", None, TEXTS[0])]
    (audited,) = rows("SELECT * FROM audit_log WHERE group_id = :g", g=group)
    check_fields(audited, actor="Lin", action="knowledge.promote")
    assert audited["details"]["entry_ids"] == [str(one)]
    again = promote(group, one)
    assert (again.entries, again.already, [piece.known for piece in again.pieces]) == ([], [one], [True])
    assert len(kept(group)) == len(history(group)) == 1


def test_what_was_promoted_is_found_by_words_at_once_and_by_meaning_when_embedded(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    promote(group, text=TEXTS[3])
    with monkeypatch.context() as away:
        away.setattr(
            tasks("framework.embedding"),
            "in_use",
            Mock(side_effect=EmbeddingUnavailable("the provider is away")),
        )
        embed()
    (owed,) = rows("SELECT attempts, last_error FROM pending_work WHERE group_id = :g", g=group)
    assert owed == {"attempts": 0, "last_error": "the provider is away"}
    found = ask(group, "two hundred bowls for the northern market")
    assert [(item.content, item.source, item.verified, item.similarity) for item in found.results] == [
        (TEXTS[3], "cold", True, None)
    ]
    assert tier(found, "longterm").message == "1 pieces are not embedded yet: found by their words"
    assert ask(group, "what about the ferry").results == []
    execute("UPDATE pending_work SET due_at = now() WHERE group_id = :g", g=group)
    assert embed() == 1
    with environment(embedder="hashing"):
        (item,) = ask(group, TEXTS[3], relevance_threshold=0.7).results
    assert item.score == item.similarity == pytest.approx(1, abs=1e-5)
    assert tier(ask(group, TEXTS[3]), "longterm").message == ""
    assert [row["embedding_model"] for row in kept(group)] == [_model()]


def _model() -> str:
    (row,) = rows("SELECT model FROM embedding_models WHERE state = 'active'")
    return str(row["model"])


def test_long_texts_become_pieces_that_are_embedded_in_one_call(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = promote(group, text=LONG)
    assert len(done.pieces) > 2
    assert all(len(piece.content) <= 500 for piece in done.pieces)
    calls: list[int] = []
    with unit_of_work() as connection:
        engine, spec = tasks("framework.embedding").in_use(connection)

    class Counting:
        model = engine.model

        def passages(self, texts: Sequence[str]) -> Any:
            calls.append(len(texts))
            return engine.passages(texts)

    monkeypatch.setattr(tasks("framework.embedding"), "in_use", lambda _connection: (Counting(), spec))
    embed()
    assert calls == [len(done.pieces)]


def test_a_preview_is_what_is_stored_and_stores_nothing(group: str) -> None:
    (one,) = say(group, TEXTS[0])
    shown = promote(group, one, preview=True)
    assert (kept(group), entry(one)["promoted_at"], shown.promoted_at) == ([], None, None)
    done = promote(group, one)
    assert [piece.model_copy(update={"known": True}) for piece in shown.pieces] == [
        piece.model_copy(update={"known": True}) for piece in done.pieces
    ]
    assert [piece.known for piece in promote(group, one, preview=True).pieces] == [True]


def test_what_is_one_agents_is_found_by_that_agent_only(group: str) -> None:
    promote(group, text=TEXTS[3], agent_id="Ada")
    promote(group, text=TEXTS[4])
    assert len(kept(group)) == 2

    def contents(**options: Any) -> set[str]:
        return {
            item.content
            for item in ask(group, TEXTS[3] + TEXTS[4], relevance_threshold=-1, **options).results
        }

    assert contents() == contents(agent_id="Bob") == {TEXTS[4]}
    assert contents(agent_id="Ada") == {TEXTS[3], TEXTS[4]}
    promote(group, text=TEXTS[3])  # the group may know the same
    assert contents() == {TEXTS[3], TEXTS[4]}


KILLED = """
import os, signal, sys
from uuid import UUID
from jiyi.protocol.knowledge import PromoteBody
from models.db.actions import Actor
from models.tiers import actions, knowledge

group, text, after = sys.argv[1], sys.argv[2], int(sys.argv[3])
stored = 0
original = knowledge.store

def store(*arguments):
    global stored
    original(*arguments)
    stored += 1
    if stored == after:
        os.kill(os.getpid(), signal.SIGKILL)

knowledge.store = store
actions.promote.perform(Actor(group, "Lin"), PromoteBody(text=text))
"""


def test_a_worker_killed_in_the_middle_of_a_promotion_leaves_no_half(group: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, group, LONG, "3"],
        cwd=CHECKOUT,
        check=False,
        timeout=240,
        capture_output=True,
    )
    assert done.returncode == -9, done.stderr
    assert (kept(group), history(group)) == ([], [])
    promoted = promote(group, text=LONG)  # nobody holds the group's lock
    assert len(kept(group)) == len(promoted.pieces) == len(history(group))
    assert len({row["content_hash"] for row in kept(group)}) == len(kept(group))


def test_two_promotions_of_one_text_at_once_store_it_once(group: str) -> None:
    start, done, errors = threading.Barrier(2), list[Promoted](), list[BaseException]()

    def one() -> None:
        try:
            start.wait(60)
            done.append(promote(group, text=LONG))
        except BaseException as error:  # noqa: BLE001 – whatever it is, the caller goes on
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert len(kept(group)) == len(done[0].pieces) == len(history(group))
    assert sorted(one.pieces[0].known for one in done) == [False, True]


# Taken back, put into other words


def test_what_was_demoted_is_not_found_keeps_its_history_and_can_be_promoted_again(group: str) -> None:
    one = promote(group, text=TEXTS[3]).pieces[0].knowledge_id
    assert one is not None
    for expected in ([one], []):
        assert (
            actions.demote.perform(
                Actor(group, "Lin"), DemoteBody(knowledge_ids=[one], reason="outdated")
            ).rows
            == expected
        )
    assert ask(group, TEXTS[3], relevance_threshold=-1).results == []
    assert promote(group, text=TEXTS[3]).pieces[0].knowledge_id == one
    assert len(ask(group, TEXTS[3], relevance_threshold=-1).results) == 1
    assert history(group) == [
        ("promoted", "Lin", None, TEXTS[3]),
        ("demoted", "Lin", TEXTS[3], None),
        ("promoted", "Lin", None, TEXTS[3]),
    ]
    with for_groups(group), unit_of_work() as connection:
        assert [change.reason for change in knowledge.history(connection, group, one)] == ["", "outdated", ""]
    with pytest.raises(NotFound):
        actions.demote.perform(Actor(group, "Lin"), DemoteBody(knowledge_ids=[uuid4()]))
    with pytest.raises(NotFound):
        promote(group, uuid4())


def edit(group: str, one: UUID, content: str) -> UUID:
    return actions.edit.perform(Actor(group, "Lin"), EditKnowledge(id=one, content=content)).knowledge_id


def test_an_edit_replaces_and_the_way_back_is_open(group: str) -> None:
    first = promote(group, text=TEXTS[3]).pieces[0].knowledge_id
    assert first is not None
    embed()
    second = edit(group, first, TEXTS[4])
    assert in_force(group) == {TEXTS[4]}
    (old,) = [row for row in kept(group) if row["knowledge_id"] == first]
    assert old["replaced_by"] == second
    with pytest.raises(NotFound, match=str(second)):
        edit(group, first, TEXTS[2])
    assert edit(group, second, TEXTS[4]) == second  # says so already
    assert edit(group, second, TEXTS[3]) == first
    assert in_force(group) == {TEXTS[3]}
    assert embed() == 2
    # What came back has kept its vector, and what is not in force needs none.
    assert [row["embedding"] is not None for row in kept(group) if row["demoted_at"] is None] == [True]
    with unit_of_work() as connection:
        assert [change.after for change in knowledge.history(connection, group, first)] == [
            TEXTS[3],
            TEXTS[4],
            TEXTS[3],
        ]


def test_an_edit_of_capitals_only_is_the_same_piece_and_embedded_anew(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the words change while they are embedded."""
    one = promote(group, text=TEXTS[3]).pieces[0].knowledge_id
    assert one is not None
    original = knowledge.fill

    def meanwhile(connection: Any, vectors: Any, model: str) -> None:
        if kept(group)[0]["content"] == TEXTS[3]:
            edit(group, one, TEXTS[3].upper())
        original(connection, vectors, model)

    with monkeypatch.context() as patch:
        patch.setattr(knowledge, "fill", meanwhile)
        embed()
    (row,) = kept(group)
    assert (row["content"], row["embedding"] is not None) == (TEXTS[3].upper(), True)
    assert rows("SELECT 1 FROM pending_work WHERE subject_id = :id", id=one) == []
    assert edit(group, one, TEXTS[3]) == one
    check_fields(kept(group)[0], content=TEXTS[3], embedding=None)
    assert embed() == 1
    assert kept(group)[0]["embedding"] is not None


# Models


@pytest.fixture
def moved_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a move changes is undone."""
    before = rows("SELECT * FROM embedding_models")
    yield
    with whole_service(), unit_of_work() as connection:
        connection.execute(text("DELETE FROM embedding_models"))
        for row in before:
            names = ", ".join(row)
            connection.execute(
                text(f"INSERT INTO embedding_models ({names}) VALUES (:{', :'.join(row)})"), row
            )


@pytest.mark.usefixtures("moved_back")
def test_a_move_to_another_model_leaves_no_knowledge_behind(group: str) -> None:
    promote(group, text=TEXTS[3])
    embed()
    before = _model()
    with whole_service(), unit_of_work() as connection:
        embedding_models.begin(connection, "hashing-32", "hashing:32", before, everything=False)
        move = embedding_models.filling(connection)
        assert move is not None
        embedding_models.hold_move(connection)
        embedding_models.switch(connection, move)
    assert [row["kind"] for row in rows("SELECT kind FROM pending_work WHERE group_id = :g", g=group)] == [
        "embed_knowledge"
    ]
    found = ask(group, "two hundred bowls for the northern market", embedder=False)
    assert [item.content for item in found.results] == [TEXTS[3]]  # by its words, meanwhile
    assert knowledge_models(group) == [before]
    execute(
        "DELETE FROM pending_work WHERE group_id <> :g", g=group
    )  # other tests' knowledge stays as it was
    assert embed() == 1
    assert knowledge_models(group) == ["hashing-32"]
    assert [item.score for item in ask(group, TEXTS[3]).results] == [pytest.approx(1, abs=1e-5)]


def knowledge_models(group: str) -> list[str]:
    return [row["embedding_model"] for row in kept(group)]


def test_promotions_are_told_without_a_word_of_what_they_say(group: str) -> None:
    done = promote(group, text=TEXTS[3])
    promote(group, text=TEXTS[3])  # known: no news
    (told,) = stream.read(group, "0")
    assert (told.kind, str(done.pieces[0].knowledge_id) in told.data, "bowls" in told.data) == (
        "memory.promoted",
        True,
        False,
    )


def test_a_group_is_found_by_an_index_and_compared_exactly() -> None:
    """Instead of ivfflat over all groups, which loses results behind a filter: see docs/decisions.md."""
    indexed = [
        row["indexdef"] for row in rows("SELECT indexdef FROM pg_indexes WHERE tablename = 'knowledge'")
    ]
    assert any("btree (group_id" in one for one in indexed)
    assert not any("ivfflat" in one or "hnsw" in one for one in indexed)
