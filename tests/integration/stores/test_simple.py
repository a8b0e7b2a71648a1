"""The simple store: written, embedded, found."""

from __future__ import annotations

from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest

from engine.providers.embedders import embedder
from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.stores import StoreName
from models.stores import actions, items
from tasks.stores import search
from tests.integration.memory.test_inbox import execute, rows
from tests.integration.stores.kept import SIMPLE, Kept, embed

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

TEAPOT, GARDEN = "The blue teapot broke on Tuesday evening.", "Mia planted tomatoes and beans in the garden."
CHINESE = "小林把会议改到了周三下午三点。"


@pytest.fixture
def kept(group: str) -> Kept:
    made = Kept(group)
    made.apply(SIMPLE)
    return made


def items_of(group: str) -> list[dict[str, Any]]:
    return rows("SELECT * FROM store_items WHERE group_id = :g ORDER BY position", g=group)


def test_what_was_said_is_found_by_meaning_and_words(kept: Kept) -> None:
    """Without a vector yet by its words; by its cosine where a threshold is on it."""
    kept.say(TEAPOT)
    found = kept.ask("the teapot")
    assert (len(found.hits), found.pending) == (1, 1)
    assert found.hits[0].cosine is None
    embed()
    kept.say(GARDEN)
    assert GARDEN in kept.found("tomatoes in the garden", top_k=1)[0]
    assert TEAPOT in kept.found("the teapot", top_k=1)[0]
    kept.say(CHINESE)
    assert embed() == 2
    found = kept.ask("When did the teapot break?", top_k=1)
    assert found.hits[0].item.content_summary == f"Input: \nOutput: {TEAPOT}"
    assert found.hits[0].cosine is not None
    assert set(found.hits[0].parts) == {"lexical"}
    assert (found.skipped, found.pending, found.notes) == (0, 0, [])
    assert CHINESE in kept.found("会议改到周几了？", top_k=1)[0]
    [hit] = kept.ask(TEAPOT, top_k=5, threshold=0.9).hits
    assert hit.cosine is not None
    assert hit.cosine >= 0.9


def test_what_gets_its_vector_while_it_is_looked_for_is_found(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.say(TEAPOT)
    by_positions = items.by_positions

    def later(*arguments: Any) -> Any:
        assert embed() == 1
        return by_positions(*arguments)

    monkeypatch.setattr(items, "by_positions", later)
    assert TEAPOT in kept.found("the teapot", top_k=1)[0]


def test_without_an_embedder_items_are_stored_and_found_by_words(group: str) -> None:
    kept = Kept(group)
    kept.apply(
        {"name": "notes", "type": "simple", "config": {"memory_path": "notes.json", "embedding": "none"}}
    )
    kept.say(TEAPOT)
    kept.say(GARDEN)
    assert embed() == 0
    assert [TEAPOT in one for one in kept.found("a broken teapot")] == [True]
    assert kept.found("nothing of the kind") == []


def test_vectors_of_another_size_are_skipped_and_counted(kept: Kept) -> None:
    for said in (TEAPOT, GARDEN):
        kept.say(said)
    embed()
    change = (
        "UPDATE store_items SET embedding = :v, revision = revision + 100 WHERE group_id = :g AND"
        " content_summary LIKE '%teapot%'"
    )
    execute(change, v=np.ones(3, dtype=np.float32), g=kept.group)
    execute("UPDATE stores SET revision = revision + 100 WHERE group_id = :g", g=kept.group)
    found = kept.ask("tomatoes in the garden and a teapot")
    assert found.skipped == 1
    assert {hit.cosine is None for hit in found.hits} == {True, False}


def test_an_embedder_that_is_away_leaves_no_vector_and_the_work_is_done_later(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.say(TEAPOT)
    away = create_autospec(embedder(), model=embedder().model)
    away.passages.side_effect = away.query.side_effect = EmbeddingUnavailable("away")
    with monkeypatch.context() as patch:
        patch.setattr(search, "in_use", lambda _connection: (away, "hashing:64"))
        embed()
        assert [row["embedding"] for row in items_of(kept.group)] == [None]
        assert kept.ask("the teapot").notes == ["searched by words: away"]
        assert TEAPOT in kept.found("the teapot")[0]
    execute("UPDATE pending_work SET due_at = now() WHERE kind = 'embed_items'")
    assert embed() == 1
    assert items_of(kept.group)[0]["embedding_model"] == embedder().model


def test_without_output_or_with_a_short_summary_nothing_is_stored_and_equal_contents_once(kept: Kept) -> None:
    assert kept.say("", inputs="What is new?").reason == "there is no output"
    assert "fewer than 20" in kept.say("ok").reason
    assert kept.items().rows == []
    assert kept.say(TEAPOT).item_id
    assert kept.say(f"  {TEAPOT.upper()} ").reason == "the store has it already"
    assert [len(row["dedupe_hash"]) for row in items_of(kept.group)] == [32]


def test_the_oldest_go_and_so_many_characters_count(group: str) -> None:
    kept = Kept(group)
    kept.apply(
        {
            "name": "notes",
            "type": "simple",
            "config": {"memory_path": "notes.json", "max_items": 3, "max_content_length": 150},
        }
    )
    dropped = [kept.say(f"This is the note number {number} of all.").dropped for number in range(5)]
    assert dropped == [0, 0, 0, 1, 1]
    embed()
    assert len(kept.found("note number 4", top_k=10)) == 3
    kept.say("The kiln was hot. " * 50)
    embed()
    assert not any("number 2" in one for one in kept.found("note number", top_k=10))
    assert max(len(one.content_summary) for one in kept.items().rows) <= 150 + len("Input: \nOutput: ...")


def test_the_originals_formulas_are_kept_for_a_store_that_declares_them(group: str) -> None:
    kept = Kept(group)
    kept.apply(
        {"name": "notes", "type": "simple", "config": {"memory_path": "notes.json", "fidelity": "devall"}}
    )
    for said in (TEAPOT, GARDEN):
        kept.say(said)
    kept.say(
        "You are invited to bring the blue teapot, "
        + "and all the cups that are left over from the fair last summer. " * 2
    )
    assert "blue teapot" not in kept.items().rows[0].content_summary
    embed()
    kept.say(CHINESE)
    hits = kept.ask("Mia planted tomatoes and beans in the garden.", top_k=4).hits
    assert hits[0].item.content_summary == f"Input: \nOutput: {GARDEN}"
    assert [set(hit.parts) for hit in hits] == [{"jaccard", "lcs", "keyword", "length"}] * len(hits)
    assert [hit.cosine is None for hit in hits] == [False, False, False]


def test_an_update_writes_its_own_row_only(kept: Kept) -> None:
    kept.say(TEAPOT)
    embed()
    writers = "SELECT xmin::text FROM store_items WHERE group_id = :g ORDER BY position LIMIT 1"
    before = rows(writers, g=kept.group)
    kept.say(GARDEN)
    assert rows(writers, g=kept.group) == before


def test_a_store_that_is_deleted_while_its_items_are_embedded_fails_no_work(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.say(TEAPOT)
    read = items.known

    def deleted(*given: Any) -> Any:
        monkeypatch.undo()
        kept.perform(actions.delete, StoreName(name="notes"))
        return read(*given)

    monkeypatch.setattr(items, "known", deleted)
    embed()
    assert rows("SELECT FROM pending_work WHERE kind = 'embed_items'") == []
