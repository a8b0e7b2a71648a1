"""Where the intake takes its messages from, such that none is lost whatever dies when.

kombu's consumer on Redis loses a message if it is killed between popping and noting it (kombu #305). So on
Redis the intake moves messages from the queue's list to a list of its own, many in one step, until they are
stored. On other brokers kombu's consumer acknowledges properly. Bodies are decompressed here, within a limit.
"""

from __future__ import annotations

import base64
import bz2
import hashlib
import json
import logging
import lzma
import math
import os
import platform
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, cast
from uuid import uuid4

import kombu
import psutil
import redis
from amqp.exceptions import ResourceLocked
from kombu import compression
from kombu.transport.redis import Channel

from jiyi import tracing
from jiyi.protocol import limits
from jiyi.protocol.wire.bounds import Bounds
from jiyi.protocol.wire.broker import AMQP_TIMEOUTS, EXCHANGE, INTAKE_QUEUE, intake_queue, member_of
from jiyi.protocol.wire.signatures import GROUP_HEADER, KEY_HEADER, SIGNATURE_HEADER
from jiyi.settings import Settings
from models.db import valkey_keys
from models.db.valkey import valkey
from models.queue.broker_queues import lists_of, redis_address

log = logging.getLogger("jiyi.intake")
#: Messages that the intake takes in one transaction.
BATCH = 256
#: On brokers other than Redis: seconds that the intake waits at most to fill a batch.
FILL_SECONDS = 0.05
#: Bytes on the broker after which a batch is full: about two thousand events, which share one commit.
BATCH_BYTES = 1_500_000
#: As how many bytes a compressed message counts at least: its size says little about what is in it, up to a
#: whole message's limit.
COMPRESSED_BYTES = 64 * 1024
#: A message as kombu puts it into a list of Redis: the body, in base64, and some headers.
ENVELOPE = Bounds(2 * limits.MAX_MESSAGE_BYTES, 10_000)
#: Seconds for which it is known how many intakes began with a message: they are started again at once, or by
#: somebody, next day.
ATTEMPTS_SECONDS = 3 * 86_400
#: Most intakes looked at in one go.
MAX_INTAKES = 1_000
#: Seconds; an answer takes a millisecond, blocking calls come on top.
SOCKET_TIMEOUT = 5.0
#: Seconds; RabbitMQ takes a consumer from which it heard nothing for twice as long for dead, and delivers its
#: messages again.
AMQP_HEARTBEAT = 60
# Also when Valkey is full, or the intake could not make room (Redis 7 and Valkey know the flag).
_ALLOW_OOM = "#!lua flags=allow-oom\n"
#: Header in which kombu names what a body was compressed by.
HEADER = "compression"
#: Most memory that an xz body may ask for by its header: what `xz -6`, which kombu's lzma is, needs, and
#: twice as much.
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
class MessageBatch:
    """Messages taken together; ``receipt`` is the source's. ``again``: a dead intake had some in hand."""

    messages: list[Taken]
    receipt: Any
    again: bool = False


class MessageSource(Protocol):
    """A queue of messages. All methods raise :data:`BROKER_ERRORS` when the broker is away."""

    def take(self, limit: int, wait: float) -> MessageBatch | None:
        """The oldest messages, at most ``limit``; None if there is none within ``wait`` seconds."""
        ...

    def turn(self, batch: MessageBatch, shard: int) -> bool | MessageBatch:
        """Whether the batch's events of this shard may be stored: those of earlier batches are.

        A batch instead, of a dead intake, that all wait for: to be stored and acknowledged first.
        """
        ...

    def acknowledge(self, batch: MessageBatch) -> None:
        """The batch is stored."""
        ...

    def close(self) -> None: ...


def open_source(settings: Settings) -> MessageSource:
    """The source for the configured broker, its exchange and queue declared."""
    address = redis_address(settings.need("broker_url"))
    options = {"connect_timeout": SOCKET_TIMEOUT, "transport_options": AMQP_TIMEOUTS}
    with kombu.Connection(settings.broker_url, **options) as connection:
        connection.ensure_connection(max_retries=1)
        # a full Valkey knows its queue, or learns it with the intake's sign of life
        with suppress(redis.OutOfMemoryError):
            intake_queue(settings)(connection.default_channel).declare()
    return KombuSource(settings) if address is None else RedisSource(address, settings)


class RedisSource:
    """Reads the list behind kombu's queue, which intakes may share; each holds what it took in own lists.

    Two of them: a batch being stored, and one being taken. Batches are stored in the order in which they were
    taken, shard by shard; a dead intake's keep their place, and the next intake stores them. A false
    positive is harmless: the database stores each event once.
    """

    #: Names of those of this process that are open.
    _open: ClassVar[set[str]] = set()

    def __init__(self, address: str, settings: Settings) -> None:
        self._settings = settings
        self.queue = INTAKE_QUEUE
        self._lists = lists_of(INTAKE_QUEUE)
        self._binding = member_of(intake_queue(settings), Channel.sep)
        self._host = platform.node().replace(":", ".")
        self.name = f"{self._host}/{os.getpid()}/{uuid4().hex}"
        self._open.add(self.name)
        self._own = valkey_keys.intake_holds(self.queue, self.name)
        self._free = list(self._own)
        self._order = valkey_keys.intake_order(self.queue)
        self._redis = redis.Redis.from_url(
            address,
            socket_timeout=SOCKET_TIMEOUT,
            socket_connect_timeout=SOCKET_TIMEOUT,
            health_check_interval=15,
        )
        self._live = self._redis.register_script(_LIVE)
        self._take = self._redis.register_script(_TAKE)
        self._turn = self._redis.register_script(_TURN)
        self._looked = -math.inf
        #: The list of a dead intake that is being stored instead of a batch of its own.
        self._adopted = ""

    def take(self, limit: int, wait: float) -> MessageBatch | None:
        first = self._stay_alive()
        if first and not self._adopted and len(self._free) == len(self._own) and self._is_orphan(first):
            self._adopted = first
            return self._adopt(first)
        hold = self._free[-1]
        messages = self._move(hold, limit) or (self._wait(wait) and self._move(hold, limit))
        if not messages:
            return None
        self._free.remove(hold)
        return MessageBatch([_opened(raw) for raw in messages], hold)

    def turn(self, batch: MessageBatch, shard: int) -> bool | MessageBatch:
        first = cast("bytes | None", self._turn(keys=[*self._order], args=[batch.receipt, shard]))
        if first is None:
            return True
        self._stay_alive()
        return self._adopt(first.decode()) if self._is_orphan(first.decode()) else False

    def _move(self, hold: str, limit: int) -> list[bytes]:
        """What is there, of all priorities; as a script, which may move it also where Valkey is full."""
        keys = [hold, self._order[0], *self._lists]
        return cast("list[bytes]", self._take(keys=keys, args=[limit, BATCH_BYTES, COMPRESSED_BYTES]))

    def _wait(self, wait: float) -> bool:
        """For a message of the usual priority, which stays; others are seen when the time is up."""
        try:
            # BLMOVE takes fractions.
            to_itself = (self.queue, self.queue, wait, "RIGHT", "RIGHT")
            return self._redis.blmove(*to_itself) is not None  # type: ignore[arg-type]
        except redis.OutOfMemoryError:  # full, perhaps of these very events: what is stored makes room
            time.sleep(wait)
            return False

    def acknowledge(self, batch: MessageBatch) -> None:
        with self._redis.pipeline() as pipe:
            pipe.delete(batch.receipt)
            pipe.zrem(self._order[0], batch.receipt)
            pipe.hdel(self._order[1], batch.receipt)
            pipe.execute()
        if batch.receipt in self._own:
            self._free.append(batch.receipt)
        elif batch.receipt == self._adopted:
            self._adopted = ""

    def close(self) -> None:
        self._open.discard(self.name)
        with suppress(redis.RedisError):  # what it holds still, which is not stored, is another one's at once
            self._redis.delete(valkey_keys.intake_alive(self.name))
        self._redis.close()

    def _stay_alive(self) -> str:
        """Say that this intake lives; now and then look after dead ones. Returns the first list in hand."""
        seconds = self._settings.intake_redelivery_seconds
        bindings = (Channel.keyprefix_queue, Channel.keyprefix_binding_permanent)
        keys = [binding % EXCHANGE for binding in bindings]
        keys += [valkey_keys.intakes(self.queue), valkey_keys.intake_alive(self.name), self._order[0]]
        first = cast("bytes | None", self._live(keys=keys, args=[self._binding, self.name, seconds]))
        if time.monotonic() - self._looked >= seconds / 2:
            self._looked = time.monotonic()
            self._look_after_dead()
        return (first or b"").decode()

    def _look_after_dead(self) -> None:
        """Forget dead ones that held nothing; give a place to lists that a version without order held."""
        for name in list(self._redis.sscan_iter(valkey_keys.intakes(self.queue), count=100))[:MAX_INTAKES]:
            intake = name.decode()
            if self._redis.exists(valkey_keys.intake_alive(intake)):
                continue
            holds = valkey_keys.intake_holds(self.queue, intake)
            occupied = [hold for hold in holds if self._redis.exists(hold)]
            if occupied:
                self._redis.zadd(self._order[0], dict.fromkeys(occupied, 0), nx=True)
            else:
                self._redis.srem(valkey_keys.intakes(self.queue), intake)

    def _is_orphan(self, hold: str) -> bool:
        """Whether the intake that holds it is dead. On this machine its process id shows that at once."""
        intake = hold.split(":")[-2]
        host, _, rest = intake.partition("/")
        pid = int(rest.partition("/")[0] or 0)
        if host == self._host and pid:
            gone = intake not in self._open if pid == os.getpid() else not psutil.pid_exists(pid)
            if gone:
                return True
        return not self._redis.exists(valkey_keys.intake_alive(intake))

    def _adopt(self, hold: str) -> MessageBatch:
        messages = cast("list[bytes]", self._redis.lrange(hold, 0, -1))
        log.warning("storing %d messages that a dead intake held", len(messages))
        return MessageBatch([_opened(raw) for raw in reversed(messages)], hold, again=True)


class KombuSource:
    """kombu's own consumer, for brokers that acknowledge properly (RabbitMQ).

    One intake reads, which keeps the order, and others stand by: an exclusive queue of its connection is the
    lock
    (``x-single-active-consumer`` would have to be declared by all publishers).
    """

    def __init__(self, settings: Settings) -> None:
        leave_to_intake()
        self._settings = settings
        self._connection = kombu.Connection(
            settings.need("broker_url"), heartbeat=AMQP_HEARTBEAT, transport_options=AMQP_TIMEOUTS
        )
        self._taken: list[kombu.Message] = []
        self._consumer: kombu.Consumer | None = None

    def _may_read(self) -> bool:
        """Whether this intake is the one that reads, or has become it now."""
        if self._consumer is not None:
            return True
        lock = kombu.Queue(f"{INTAKE_QUEUE}.reader", exclusive=True, durable=False, auto_delete=True)
        try:
            with self._connection.channel() as channel:
                lock(channel).queue_declare()
        except ResourceLocked:
            return False
        self._consumer = self._connection.Consumer(
            [intake_queue(self._settings)],
            on_message=self._taken.append,
            accept=["json"],
            prefetch_count=BATCH * 2,  # one batch being stored, one being taken
        )
        self._consumer.consume()
        return True

    def turn(self, batch: MessageBatch, shard: int) -> bool | MessageBatch:  # noqa: ARG002 – the protocol's
        return True  # nobody else reads

    def take(self, limit: int, wait: float) -> MessageBatch | None:
        self._connection.heartbeat_check()  # an intake that is idle, and lives
        if not self._may_read():
            time.sleep(wait)
            return None
        deadline = time.monotonic() + wait
        while len(self._taken) < limit and (remaining := deadline - time.monotonic()) > 0:
            try:
                self._connection.drain_events(timeout=remaining)
            except TimeoutError:
                break
            # The first message has come: what follows it closely belongs to the batch, the rest to the next
            # one.
            deadline = min(deadline, time.monotonic() + FILL_SECONDS)
        if not self._taken:
            return None
        messages: list[kombu.Message] = []
        size = 0
        while self._taken and len(messages) < limit and size < BATCH_BYTES:
            message = self._taken.pop(0)
            messages.append(message)
            size += max(len(_bytes(message.body)), COMPRESSED_BYTES if compression_of(message.headers) else 0)
        opened = [_taken(_bytes(message.body), message.content_type, message.headers) for message in messages]
        again = any((message.delivery_info or {}).get("redelivered") for message in messages)
        return MessageBatch(opened, messages, again=again)

    def acknowledge(self, batch: MessageBatch) -> None:
        for message in batch.receipt:
            message.ack()

    def close(self) -> None:
        self._connection.release()


def begin_again(message: Taken) -> int:
    """Which intake begins with a redelivered message: 1 for the first after the one that died."""
    return int(valkey().eval(_BEGIN, 1, _attempts_at(message), ATTEMPTS_SECONDS))


def ended(message: Taken) -> None:
    """It is stored, or left to the next intake by one that stops in good order."""
    valkey().delete(_attempts_at(message))


def _attempts_at(message: Taken) -> str:
    return valkey_keys.intake_attempts(hashlib.blake2b(message.body, digest_size=16).hexdigest())


def _opened(raw: bytes) -> Taken:
    """A message in kombu's form. Another one (pushed by hand) is passed on unchanged."""
    try:
        ENVELOPE.check(raw)
        message = json.loads(raw)
        body, encoding = message["body"], message.get("properties", {}).get("body_encoding")
        opened = base64.b64decode(body) if encoding == "base64" else _bytes(body)
        return _taken(opened, message.get("content-type"), message.get("headers"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Taken(raw, "unknown")


def _taken(body: bytes, content_type: Any, headers: Any) -> Taken:
    return Taken(
        body, str(content_type), signature_of(headers), compression_of(headers), tracing.received(headers)
    )


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
    """Decompress a body. Raises :class:`UnreadableBodyError`: too large, not whole, unknown compression."""
    make = _DECOMPRESSORS.get(name)
    if make is None:
        problem = f"compressed by {name!r}, which is not read: publish without compression, or with {READ}"
        raise UnreadableBodyError(problem)
    decompressor = make()
    try:
        plain = decompressor.decompress(body, limit + 1)
    except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
        # OSError and ValueError are bz2's
        raise UnreadableBodyError(
            f"its header says {name!r}, but it cannot be decompressed: {error}"
        ) from None
    if len(plain) > limit:
        raise UnreadableBodyError(
            f"a message of more than {limit:,} bytes, decompressed, is larger than {limit:,}"
        )
    if not decompressor.eof or decompressor.unused_data:
        raise UnreadableBodyError(f"its header says {name!r}, but it is not one whole compressed body")
    return plain


def limit_kombu(limit: int) -> None:
    """Make kombu decompress no body to more than ``limit`` bytes in this process, tasks' included."""
    _replace_decoders(lambda name: partial(decompressed, name=name, limit=limit))


def leave_to_intake() -> None:
    """Make kombu deliver bodies as they came, in this process, which decompresses them itself."""
    _replace_decoders(lambda _: bytes)


def _replace_decoders(decoder_of: Callable[[str], Callable[[bytes], bytes]]) -> None:
    for name in compression.encoders():
        encoder, _ = compression.get_encoder(name)
        compression.register(encoder, decoder_of(name), name)


# Each time: a broker may lose the bindings, for which producers wait, and the name, without which nobody
# looks for our lists.
_LIVE = f"""{_ALLOW_OOM}
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[2])
redis.call('SET', KEYS[4], 1, 'EX', ARGV[3])
return redis.call('ZRANGE', KEYS[5], 0, 0)[1]
"""
# Kombu publishes at the left end of a list, so the oldest message is at the right; in a hold, too. Each list,
# which is a priority, first gets its share, and then the most urgent what is left: so none waits for ever
# behind another one that is never empty.
_TAKE = f"""{_ALLOW_OOM}
local taken, bytes, limit, most, lists = {{}}, 0, tonumber(ARGV[1]), tonumber(ARGV[2]), #KEYS - 2
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
for i = 1, lists do move(KEYS[i + 2], math.ceil((limit - #taken) / lists), most * i / lists) end
for i = 1, lists do move(KEYS[i + 2], limit - #taken, most) end
if #taken > 0 then
    local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', KEYS[2], (last or 0) + 1, KEYS[1])
end
return taken
"""
_BEGIN = f"""{_ALLOW_OOM}
local count = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return count
"""
# Nothing: the turn has come, or it is no longer in hand (somebody stored it, or Valkey lost it: then it is
# stored all the same). Else the list that all wait for. It is enough to look at the batch before: it did not
# go on either before its own turn.
_TURN = f"""{_ALLOW_OOM}
local place = redis.call('ZRANK', KEYS[1], ARGV[1])
if not place then return false end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
if place == 0 then return false end
local before = redis.call('ZRANGE', KEYS[1], place - 1, place - 1)[1]
if tonumber(redis.call('HGET', KEYS[2], before) or 0) > tonumber(ARGV[2]) then return false end
return redis.call('ZRANGE', KEYS[1], 0, 0)[1]
"""
#: kombu's names of the compressions that are read: those that every Python has. All else is refused by its
#: name.
_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    # The type knows more parameters than the protocol.
    "application/x-gzip": lambda: zlib.decompressobj(),  # noqa: PLW0108
    "application/x-bz2": bz2.BZ2Decompressor,
    "application/x-lzma": lambda: lzma.LZMADecompressor(memlimit=LZMA_BYTES),
}
