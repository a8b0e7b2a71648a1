"""Writing an ONNX model: the few messages of its protobuf schema that a network of ours has.

The package ``onnx`` would write them too, for 30 MB more. The numbers are those of the fields in ``onnx.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from engine.providers.embedders.e5.weights import Array

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


def node(operator: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: float) -> bytes:
    """One operation; an empty name leaves out an input that may be left out."""
    parts = [_data(1, name) for name in inputs]
    parts += [_data(2, output), _data(4, operator)]
    parts += [_data(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join([*parts, _data(7, domain)])


def tensor(name: str, values: Array) -> bytes:
    """Values that belong to the model."""
    parts = [_number(1, size) for size in values.shape]
    return b"".join([*parts, _number(2, _TYPES[values.dtype]), _data(8, name), _data(9, np.ascontiguousarray(values).tobytes())])


def value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    """What goes in or comes out; a size that differs from call to call has a name."""
    sizes = [_data(1, _number(1, size) if isinstance(size, int) else _data(2, size)) for size in shape]
    return _data(1, name) + _data(2, _data(1, _number(1, kind) + _data(2, b"".join(sizes))))


def model(nodes: Sequence[bytes], tensors: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes]) -> bytes:
    """The whole file."""
    parts = [_data(1, one) for one in nodes] + [_data(2, "jiyi")]
    parts += [_data(5, one) for one in tensors] + [_data(11, one) for one in inputs] + [_data(12, one) for one in outputs]
    opsets: Mapping[str, int] = {"": OPSET, MICROSOFT: MICROSOFT_OPSET}
    versions = [_data(8, _data(1, domain) + _number(2, version)) for domain, version in opsets.items()]
    return b"".join([_number(1, IR_VERSION), _data(7, b"".join(parts)), *versions])
