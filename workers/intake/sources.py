"""Where the intake takes its messages from, such that none is lost whatever dies when.

kombu's consumer on Redis pops a message first and notes that it has it afterwards; a process that is killed
in between takes the message along (kombu #305; our smoke test met it). So on Redis the intake reads the list
of kombu's queue itself: messages *move* to a list of the intake's own, in one step and many at a time, and
leave it when they are stored. Other brokers acknowledge properly; there kombu's consumer does.

kombu itself would decompress whatever it delivers, however much that gives. After :func:`limit_kombu` it keeps to the limit, and after
:func:`leave_to_intake` it leaves the bodies as they are, for the intake, which opens them one by one.
"""

from __future__ import annotations

import base64
import bz2
import json
import logging
import lzma
import math
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast
from uuid import uuid4

import kombu
import redis
from kombu import compression
from kombu.transport.redis import Channel

from jiyi import tracing
from jiyi.protocol.wire.broker import AMQP_TIMEOUTS, intake_queue, member_of
from jiyi.protocol.wire.signatures import GROUP_HEADER, KEY_HEADER, SIGNATURE_HEADER
from jiyi.settings import Settings
from models.db import valkey_keys
from models.queue.broker_queues import lists_of, redis_address

log = logging.getLogger("jiyi.intake")
#: Messages that the intake takes in one transaction.
BATCH = 256
#: On brokers other than Redis: seconds that the intake waits at most to fill a batch.
FILL_SECONDS = 0.05
#: Bytes on the broker after which a batch is full: about two thousand events, which share one commit.
BATCH_BYTES = 1_500_000
#: As how many bytes a compressed message counts at least: its size says little about what is in it, up to a whole message's limit.
COMPRESSED_BYTES = 64 * 1024
#: Most intakes looked at in one go.
MAX_INTAKES = 1_000
#: Seconds; an answer takes a millisecond, blocking calls come on top.
SOCKET_TIMEOUT = 5.0
#: Seconds; RabbitMQ takes a consumer from which it heard nothing for twice as long for dead, and delivers its messages again.
AMQP_HEARTBEAT = 60
# Also when Valkey is full, or the intake could not make room (Redis 7 and Valkey know the flag).
_ALLOW_OOM = "#!lua flags=allow-oom\n"
#: Header in which kombu names what a body was compressed by.
HEADER = "compression"
#: Most memory that an xz body may ask for by its header: what `xz -6`, which kombu's lzma is, needs, and twice as much.
LZMA_BYTES = 32 * 1024 * 1024
#: What publishers call them.
READ = "gzip, bzip2 and lzma"


@dataclass(frozen=True, slots=True)
class Signature:
    """Who says to have signed a message. ``group_id``: for which group, where it is the service itself."""

    key_id: str
    value: str
    group_id: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """One message as it came; ``signature`` is what its headers say, unchecked."""

    body: bytes
    content_type: str
    signature: Signature | None = None
    #: What kombu compressed the body by; empty if it did not.
    compression: str = ""
    #: What trace it is of, as its headers say.
    trace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages taken together; ``receipt`` is the source's own."""

    messages: list[Taken]
    receipt: Any


class Source(Protocol):
    """A queue of messages. All methods raise :data:`BROKER_ERRORS` when the broker is away."""

    def take(self, limit: int, wait: float) -> Batch | None:
        """The oldest messages, at most ``limit``; None if there is none within ``wait`` seconds."""
        ...

    def acknowledge(self, batch: Batch) -> None:
        """The batch is stored."""
        ...

    def close(self) -> None: ...


def open_source(settings: Settings) -> Source:
    """The source for the configured broker, its exchange and queue declared."""
    address = redis_address(settings.need("broker_url"))
    with kombu.Connection(settings.broker_url, connect_timeout=SOCKET_TIMEOUT, transport_options=AMQP_TIMEOUTS) as connection:
        connection.ensure_connection(max_retries=1)
        with suppress(redis.OutOfMemoryError):  # a full Valkey knows its queue, or learns it with the intake's sign of life
            intake_queue(settings)(connection.default_channel).declare()
    return KombuSource(settings) if address is None else RedisSource(address, settings)


class RedisSource:
    """Reads the list behind kombu's queue. Several intakes may share it; each holds what it took in lists of its own.

    It has two lists, for a batch being stored and one being taken.
    """

    def __init__(self, address: str, settings: Settings) -> None:
        self._settings = settings
        self._queue = settings.intake_queue
        self._lists = lists_of(settings.intake_queue)
        self._binding = member_of(intake_queue(settings), Channel.sep)
        self._name = uuid4().hex
        self._free = list(valkey_keys.intake_holds(self._queue, self._name))
        self._redis = redis.Redis.from_url(
            address, socket_timeout=SOCKET_TIMEOUT, socket_connect_timeout=SOCKET_TIMEOUT, health_check_interval=15
        )
        self._live = self._redis.register_script(_LIVE)
        self._take = self._redis.register_script(_TAKE)
        self._return = self._redis.register_script(_RETURN)
        self._looked = -math.inf

    def take(self, limit: int, wait: float) -> Batch | None:
        self._stay_alive()
        hold = self._free[-1]
        taken = self._move(hold, limit, BATCH_BYTES) or self._wait(hold, limit, wait)
        if not taken:
            return None
        self._free.remove(hold)
        return Batch([_opened(raw) for raw in taken], hold)

    def _move(self, hold: str, limit: int, most_bytes: int) -> list[bytes]:
        """What is there, of all priorities; as a script, which may move it also where Valkey is full."""
        return cast("list[bytes]", self._take(keys=[hold, *self._lists], args=[limit, most_bytes, COMPRESSED_BYTES]))

    def _wait(self, hold: str, limit: int, wait: float) -> list[bytes]:
        """For a message of the usual priority, and then what has come with it; one of another priority is seen when the time is up."""
        try:
            first = self._redis.blmove(self._queue, hold, wait, "RIGHT", "LEFT")  # type: ignore[arg-type]  # BLMOVE takes fractions
        except redis.OutOfMemoryError:  # full, perhaps of these very events: what is stored makes room
            time.sleep(wait)
            return []
        return [] if first is None else [cast("bytes", first), *self._move(hold, limit - 1, BATCH_BYTES - len(first))]

    def acknowledge(self, batch: Batch) -> None:
        self._redis.delete(batch.receipt)
        self._free.append(batch.receipt)

    def close(self) -> None:
        self._redis.close()

    def _stay_alive(self) -> None:
        """Say that this intake lives, and which queue it reads; and now and then return what dead ones held."""
        seconds = self._settings.intake_redelivery_seconds
        keys = [bindings % self._settings.exchange for bindings in (Channel.keyprefix_queue, Channel.keyprefix_binding_permanent)]
        keys += [valkey_keys.intakes(self._queue), valkey_keys.intake_alive(self._name)]
        self._live(keys=keys, args=[self._binding, self._name, seconds])
        if time.monotonic() - self._looked < seconds / 2:
            return
        self._looked = time.monotonic()
        for name in list(self._redis.sscan_iter(valkey_keys.intakes(self._queue), count=100))[:MAX_INTAKES]:
            intake = name.decode()
            if not self._redis.exists(valkey_keys.intake_alive(intake)):
                # The batch being stored was taken first, but which of the two it is died with the intake: events
                # have their own times, and the database each event once, so the order is a courtesy.
                returned = sum(self._return(keys=[self._queue, hold]) for hold in valkey_keys.intake_holds(self._queue, intake))
                self._redis.srem(valkey_keys.intakes(self._queue), intake)
                log.warning("returned %d messages that a dead intake held", returned)


class KombuSource:
    """kombu's own consumer, for brokers that acknowledge properly (RabbitMQ)."""

    def __init__(self, settings: Settings) -> None:
        leave_to_intake()
        self._settings = settings
        self._connection = kombu.Connection(settings.need("broker_url"), heartbeat=AMQP_HEARTBEAT, transport_options=AMQP_TIMEOUTS)
        self._taken: list[kombu.Message] = []
        self._consumer = self._connection.Consumer(
            [intake_queue(settings)],
            on_message=self._taken.append,
            accept=["json"],
            prefetch_count=BATCH * 2,  # one batch being stored, one being taken
        )
        self._consumer.consume()

    def take(self, limit: int, wait: float) -> Batch | None:
        self._connection.heartbeat_check()  # an intake that is idle, and lives
        deadline = time.monotonic() + wait
        while len(self._taken) < limit and (left := deadline - time.monotonic()) > 0:
            try:
                self._connection.drain_events(timeout=left)
            except TimeoutError:
                break
            # The first message has come: what follows it closely belongs to the batch, the rest to the next one.
            deadline = min(deadline, time.monotonic() + FILL_SECONDS)
        if not self._taken:
            return None
        messages: list[kombu.Message] = []
        size = 0
        while self._taken and len(messages) < limit and size < BATCH_BYTES:
            message = self._taken.pop(0)
            messages.append(message)
            size += max(len(_bytes(message.body)), COMPRESSED_BYTES if compression_of(message.headers) else 0)
        taken = [_taken(_bytes(message.body), message.content_type, message.headers) for message in messages]
        return Batch(taken, messages)

    def acknowledge(self, batch: Batch) -> None:
        for message in batch.receipt:
            message.ack()

    def close(self) -> None:
        self._connection.release()


def _opened(raw: bytes) -> Taken:
    """A message in kombu's form. One that is not (somebody pushed to the list by hand) is passed on as it is."""
    try:
        message = json.loads(raw)
        body, encoding = message["body"], message.get("properties", {}).get("body_encoding")
        opened = base64.b64decode(body) if encoding == "base64" else _bytes(body)
        return _taken(opened, message.get("content-type"), message.get("headers"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Taken(raw, "unknown")


def _taken(body: bytes, content_type: Any, headers: Any) -> Taken:
    return Taken(body, str(content_type), signature_of(headers), compression_of(headers), tracing.received(headers))


def compression_of(headers: Any) -> str:
    """What a message's headers say that its body was compressed by; empty if they do not."""
    return str(headers.get(HEADER) or "") if headers else ""


def signature_of(headers: Any) -> Signature | None:
    """Of a message's headers; None if there is neither key nor signature among them."""
    if not headers or not (SIGNATURE_HEADER in headers or KEY_HEADER in headers):
        return None
    return Signature(*(str(headers.get(name, "")) for name in (KEY_HEADER, SIGNATURE_HEADER, GROUP_HEADER)))


def _bytes(body: bytes | str) -> bytes:
    return body if isinstance(body, bytes) else str(body).encode()


class UnreadableBodyError(ValueError):
    """A compressed body that is not read, and why, as a sentence."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


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


# Each time: a broker may lose the bindings, for which producers wait, and the name, without which nobody looks for our lists.
_LIVE = f"""{_ALLOW_OOM}
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[2])
redis.call('SET', KEYS[4], 1, 'EX', ARGV[3])
"""
# Kombu publishes at the left end of a list, so the oldest message is at the right; in a hold, too. Each list, which is a priority, first
# gets its share, and then the most urgent what is left: so none waits for ever behind another one that is never empty.
_TAKE = f"""{_ALLOW_OOM}
local taken, bytes, limit, most, lists = {{}}, 0, tonumber(ARGV[1]), tonumber(ARGV[2]), #KEYS - 1
local function move(list, count, most)
    while count > 0 and bytes < most do
        local message = redis.call('LMOVE', list, KEYS[1], 'RIGHT', 'LEFT')
        if not message then return end
        taken[#taken + 1] = message
        local size = #message
        if string.find(message, '"compression": ?"', -4096) then size = math.max(size, tonumber(ARGV[3])) end
        bytes = bytes + size
        count = count - 1
    end
end
for i = 1, lists do move(KEYS[i + 1], math.ceil((limit - #taken) / lists), most * i / lists) end
for i = 1, lists do move(KEYS[i + 1], limit - #taken, most) end
return taken
"""
_RETURN = f"""{_ALLOW_OOM}
local held = redis.call('LRANGE', KEYS[2], 0, -1)
for _, message in ipairs(held) do redis.call('RPUSH', KEYS[1], message) end
redis.call('DEL', KEYS[2])
return #held
"""
#: kombu's names of the compressions that are read: those that every Python has. All else is refused by its name.
_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    "application/x-gzip": lambda: zlib.decompressobj(),  # noqa: PLW0108 – the type knows more parameters than the protocol
    "application/x-bz2": bz2.BZ2Decompressor,
    "application/x-lzma": lambda: lzma.LZMADecompressor(memlimit=LZMA_BYTES),
}
