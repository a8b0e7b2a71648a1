"""Vectors on the wire: base64 of little-endian float32, or a JSON list of numbers, as such or as text (as PostgreSQL writes it)."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from jiyi.protocol import limits

if TYPE_CHECKING:  # whoever sends or asks without vectors need not load it
    import numpy as np
    from numpy.typing import NDArray

Float32: TypeAlias = "NDArray[np.float32]"

#: float32 values are 4 bytes each.
BYTES_PER_VALUE = 4
WIRE_TYPE = "<f4"
#: Euclidean length of a vector: embedders give 1, some up to a few hundred. Beyond these bounds products of two vectors leave float32.
MIN_LENGTH, MAX_LENGTH = 1e-6, 1e6


NO_VECTOR = "not a vector: give a list of numbers, or base64 of little-endian float32"


def to_bytes(value: Any) -> bytes:
    """``value`` (numbers, an array, base64 or JSON text, or packed bytes) as little-endian float32 bytes.

    Raises:
        ValueError: not a vector, empty, with more than ``limits.MAX_VECTOR_DIMENSIONS``, NaN, infinite, all zero, or so short or long that
            it cannot be compared.
    """
    import numpy as np

    if isinstance(value, str):
        value = _of_text(value)
    if isinstance(value, bytes):
        if len(value) % BYTES_PER_VALUE:
            raise ValueError(f"{len(value)} bytes are no whole number of float32 values")
        array = np.frombuffer(value, dtype=WIRE_TYPE)
    else:
        if isinstance(value, list | tuple) and not all(type(item) in (int, float) for item in value):
            raise ValueError("not a vector: it has one dimension, and every value is a finite number")
        try:
            with np.errstate(over="ignore"):  # too large for float32 becomes infinite, refused below
                array = np.asarray(value, dtype=np.float64).astype(WIRE_TYPE)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(NO_VECTOR) from None
    limit = limits.MAX_VECTOR_DIMENSIONS
    if array.ndim != 1 or not 1 <= array.size <= limit:
        raise ValueError(f"a vector has one dimension and 1 to {limit:,} values; this has the shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("every value must be a finite number")
    if not array.any():
        raise ValueError("all values are zero: send no vector instead, and the service embeds the text")
    length = float(np.linalg.norm(array.astype(np.float64)))
    if not MIN_LENGTH <= length <= MAX_LENGTH:
        raise ValueError(f"its length is {length:.3g}, and may be {MIN_LENGTH:g} to {MAX_LENGTH:,.0f}: divide every value by the length")
    return array.tobytes()


def _of_text(text: str) -> Any:
    """``[0.1, 0.2]`` as a list, base64 as bytes: no base64 begins with a bracket."""
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
