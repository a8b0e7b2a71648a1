"""Messages that kombu compressed, made plain again: never to more than a limit, so that a small message cannot fill the memory.

kombu itself would decompress whatever it delivers, however much that gives. After :func:`limit_kombu` it keeps to the limit, and after
:func:`leave_to_intake` it leaves the bodies as they are, for the intake, which opens them one by one.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kombu import compression

#: Header in which kombu names what a body was compressed by.
HEADER = "compression"
#: Most memory that an xz body may ask for by its header: what `xz -6`, which kombu's lzma is, needs, and twice as much.
LZMA_BYTES = 32 * 1024 * 1024


class UnreadableBodyError(ValueError):
    """A compressed body that is not read, and why, as a sentence."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


#: kombu's names of the compressions that are read: those that every Python has. All else is refused by its name.
_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    "application/x-gzip": lambda: zlib.decompressobj(),  # noqa: PLW0108 – the type knows more parameters than the protocol
    "application/x-bz2": bz2.BZ2Decompressor,
    "application/x-lzma": lambda: lzma.LZMADecompressor(memlimit=LZMA_BYTES),
}
#: What publishers call them.
READ = "gzip, bzip2 and lzma"


def decompressed(body: bytes, name: str, limit: int) -> bytes:
    """The body as it was before ``name`` compressed it.

    Raises:
        UnreadableBodyError: it is more than ``limit`` bytes, is not whole, or was compressed by something else.
    """
    make = _DECOMPRESSORS.get(name)
    if make is None:
        raise UnreadableBodyError(f"compressed by {name!r}, which is not read: publish without compression, or with {READ}")
    decompressor = make()
    try:
        plain = decompressor.decompress(body, limit + 1)
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:  # OSError and ValueError are bz2's
        raise UnreadableBodyError(f"its header says {name!r}, but it cannot be decompressed: {error}") from None
    if len(plain) > limit:
        raise UnreadableBodyError(f"a message of more than {limit:,} bytes, decompressed, is larger than {limit:,}")
    if not decompressor.eof or decompressor.unused_data:
        raise UnreadableBodyError(f"its header says {name!r}, but it is not one whole compressed body")
    return plain


def limit_kombu(limit: int) -> None:
    """Make kombu decompress no body to more than ``limit`` bytes in this process: not that of a task either."""
    _replace_decoders(lambda name: partial(decompressed, name=name, limit=limit))


def leave_to_intake() -> None:
    """Make kombu deliver bodies as they came, in this process, which decompresses them itself."""
    _replace_decoders(lambda _: bytes)


def _replace_decoders(decoder_of: Callable[[str], Callable[[bytes], bytes]]) -> None:
    for name in compression.encoders():
        encoder, _ = compression.get_encoder(name)
        compression.register(encoder, decoder_of(name), name)
