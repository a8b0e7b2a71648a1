"""engine.tiers.promotion and jiyi.protocol.tiers: what is stored of a promotion, and what may be asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, ValidationError

from engine.tiers.promotion import knowledge_id, plan
from jiyi.protocol.tiers.knowledge import DemoteBody, EditBody, IngestBody, KnowledgeFilter, PromoteBody
from jiyi.text.splitting import split

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
LATER = datetime(2026, 3, 9, 9, tzinfo=UTC)
LONG = " ".join(f"窑温到了{number}度。托马斯担心釉面会裂，林岚并不同意！The kiln held {number} times." for number in range(60))


def test_a_long_text_becomes_pieces_that_say_where_they_come_from() -> None:
    entry = UUID(int=7)
    planned = plan(LONG, group_id="g", promoted_at=NOW, entry_ids=[entry], metadata={"node_id": "judge", "source": "forged"})
    assert len(planned) > 3
    assert planned[1].metadata == {
        "node_id": "judge",
        "source": "promotion",
        "promoted_at": "2026-03-02T09:00:00+00:00",
        "piece": 2,
        "pieces": len(split(LONG)),
        "entry_ids": [str(entry)],
    }
    assert all(len(piece.content) <= 500 for piece in planned)


def test_promoting_again_meets_the_same_ids_and_another_group_or_agent_others() -> None:
    """In the original a promotion that fails in the middle leaves its first pieces, and stores them again."""
    first, again = plan(LONG, group_id="g", promoted_at=NOW), plan(f"\n{LONG} ", group_id="g", promoted_at=LATER)
    mine = {piece.knowledge_id for piece in first}
    assert [piece.knowledge_id for piece in first] == [piece.knowledge_id for piece in again]
    assert len(mine) == len(first)
    for other in ({"group_id": "h"}, {"group_id": "g", "agent_id": "a"}):
        assert not mine & {piece.knowledge_id for piece in plan(LONG, promoted_at=NOW, **other)}
    names = [("a", None), ("a:1", None), ("a", "1"), ("a:", "1"), ("a", ":1"), ("a:1", "-"), ("a", "1:-")]
    assert len({knowledge_id(*name, b"x") for name in names}) == len(names), "none is taken for another for a colon"


def test_what_is_said_twice_is_stored_once() -> None:
    paragraph = "The verdict stands. " * 20
    (first,) = plan(f"{paragraph}\n\n{paragraph.upper()}", group_id="g", promoted_at=NOW, overlap=0)
    assert (first.content, first.metadata["piece"]) == (paragraph.strip(), 1)
    assert plan(" \n", group_id="g", promoted_at=NOW) == []


@pytest.mark.parametrize(
    ("model", "fields", "wrong"),
    [
        (PromoteBody, {}, "entry_ids"),
        (PromoteBody, {"text": " "}, "text"),
        (PromoteBody, {"entry_ids": ["x"]}, "entry_ids"),
        (PromoteBody, {"entry_ids": [UUID(int=1)] * 101}, "entry_ids"),
        (PromoteBody, {"text": "x" * 100_001}, "text"),
        (IngestBody, {"content": ""}, "content"),
        (IngestBody, {"content": "x", "confidence": 80}, "confidence"),
        (IngestBody, {"content": "x", "group_id": "g"}, "group_id"),
        (DemoteBody, {"knowledge_ids": []}, "knowledge_ids"),
        (EditBody, {"content": "x" * 20_001}, "content"),
        (KnowledgeFilter, {"layer": "web"}, "layer"),
        (KnowledgeFilter, {"limit": 501}, "limit"),
    ],
)
def test_what_is_wrong_is_refused_by_name(model: type[BaseModel], fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong):
        model.model_validate(fields)
