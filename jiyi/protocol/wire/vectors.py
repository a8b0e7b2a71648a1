"""Vectors on the wire: base64 of little-endian float32, or a JSON list of numbers, as such or as text (as
PostgreSQL writes it).
"""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from jiyi.protocol import limits

if TYPE_CHECKING:  # the service's; a client need not have it
    import numpy as np
    from numpy.typing import NDArray

Float32: TypeAlias = "NDArray[np.float32]"

#: float32 values are 4 bytes each.
BYTES_PER_VALUE = 4
WIRE_TYPE = "<f4"
#: Euclidean length of a vector: embedders give 1, some up to a few hundred. Beyond these bounds products of
#: two vectors leave float32.
MIN_LENGTH, MAX_LENGTH = 1e-6, 1e6
#: Characters of the longest vector as text: a number of full precision, its sign, its comma and a blank have
#: 27.
MAX_TEXT_CHARS = 27 * limits.MAX_VECTOR_DIMENSIONS


NOT_FINITE = "every value must be a finite number"
NO_VECTOR = "not a vector: give a list of numbers, or base64 of little-endian float32"


def to_bytes(value: Any) -> bytes:
    """``value`` (numbers, an array, base64 or JSON text, or packed bytes) as little-endian float32 bytes.

    Raises:
        ValueError: not a vector, empty, with more than ``limits.MAX_VECTOR_DIMENSIONS``, NaN, infinite, all
            zero, or so short or long that it cannot be compared.
    """
    if isinstance(value, str):
        value = _of_text(value)
    packed = (
        value if isinstance(value, bytes) else _packed(value.tolist() if hasattr(value, "tolist") else value)
    )
    if len(packed) % BYTES_PER_VALUE:
        raise ValueError(f"{len(packed)} bytes are no whole number of float32 values")
    size, limit = len(packed) // BYTES_PER_VALUE, limits.MAX_VECTOR_DIMENSIONS
    if not 1 <= size <= limit:
        raise ValueError(f"a vector has one dimension and 1 to {limit:,} values; this has {size:,}")
    values = struct.unpack(f"<{size}f", packed)
    if not all(map(math.isfinite, values)):
        raise ValueError(NOT_FINITE)
    if not any(values):
        raise ValueError("all values are zero: send no vector instead, and the service embeds the text")
    length = math.hypot(*values)
    if not MIN_LENGTH <= length <= MAX_LENGTH:
        raise ValueError(
            f"its length is {length:.3g}, and may be {MIN_LENGTH:g} to {MAX_LENGTH:,.0f}: divide every value"
            " by the length"
        )
    return packed


def _packed(values: Any) -> bytes:
    plain = isinstance(values, list | tuple) and all(type(item) in (int, float) for item in values)
    if not plain:
        numbers = isinstance(values, int | float | list | tuple)
        raise ValueError(
            "not a vector: it has one dimension, and every value is a finite number" if numbers else NO_VECTOR
        )
    try:
        return struct.pack(f"<{len(values)}f", *values)
    except (OverflowError, struct.error):  # too large for a float32, or for a float
        raise ValueError(NOT_FINITE) from None


def _of_text(text: str) -> Any:
    """``[0.1, 0.2]`` as a list, base64 as bytes: no base64 begins with a bracket."""
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(
            f"{len(text):,} characters are more than those of {limits.MAX_VECTOR_DIMENSIONS:,} numbers"
        )
    try:
        return json.loads(text) if text.lstrip().startswith("[") else base64.b64decode(text, validate=True)
    except (ValueError, RecursionError):  # binascii's error is a ValueError
        raise ValueError(NO_VECTOR) from None


def to_array(packed: bytes) -> Float32:
    """The packed vector as a float32 array of shape ``(dimensions,)``."""
    import numpy as np

    return np.frombuffer(packed, dtype=WIRE_TYPE).astype(np.float32, copy=False)


def to_text(packed: bytes) -> str:
    return base64.b64encode(packed).decode("ascii")


#: A vector in a model: validated by :func:`to_bytes`, kept packed, base64 in JSON.
Vector = Annotated[bytes, BeforeValidator(to_bytes), PlainSerializer(to_text, return_type=str)]
