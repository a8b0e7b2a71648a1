"""What was embedded once is not embedded again: a text of a group by one model has one vector, which is
copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.providers.embedders import HashingEmbedder
from jiyi.protocol.wire.vectors import Float32
from models.memory.work import EMBED
from tasks.framework.work import run_until_idle
from tasks.memory import embed
from tests.integration.memory.test_inbox import observed, rows, save

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that the embedder was asked for."""
    texts: list[str] = []
    before = HashingEmbedder.passages

    def passages(self: HashingEmbedder, given: Sequence[str]) -> Float32:
        texts.extend(given)
        return before(self, given)

    monkeypatch.setattr(HashingEmbedder, "passages", passages)
    return texts


def remember(group: str, *texts: str, agent_id: str = "klaus") -> None:
    save(*(observed(group, text, agent_id=agent_id) for text in texts))
    run_until_idle(EMBED, embed)


@pytest.mark.parametrize("other", ["klaus buys tea", "Klaus buys tea.", "克劳斯买茶"])
def test_another_text_has_its_own(group: str, asked: list[str], other: str) -> None:
    remember(group, "Klaus buys tea")
    remember(group, other)
    assert asked == ["Klaus buys tea", other]


def test_no_vector_comes_from_another_group_or_model(group: str, asked: list[str]) -> None:
    remember(group, "Klaus buys tea")
    remember(f"{group}-other", "Klaus buys tea")
    assert asked == ["Klaus buys tea"] * 2
    rows("UPDATE memory_nodes SET embedding_model = 'other' WHERE group_id = :g RETURNING node_id", g=group)
    remember(group, "Klaus buys tea", agent_id="another")
    assert len(asked) == 3
