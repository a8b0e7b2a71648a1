"""What a batch's messages hold: events; and what is none, or not of its sender's group, and why."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from jiyi.protocol import event_bodies, limits
from jiyi.protocol import events as wire
from jiyi.protocol.events import Event, EventKey
from jiyi.protocol.wire.signatures import ID, SERVICE, service_signing_key, verifies
from jiyi.settings import Settings
from models.accounts.api_keys import ApiKey, known_keys
from models.memory import inbox
from models.memory.event_rows import PreparedMemory
from models.memory.event_types import refusal
from models.memory.ingest import Rejected, identity
from workers.intake.sources import Signature, Taken, UnreadableBodyError, decompressed

log = logging.getLogger("jiyi.intake")


#: Bytes that are kept of a message that is too large to be read: enough to identify its source.
KEPT_OF_TOO_LARGE = 64 * 1024
#: Events of which is made what follows from them, while they are still in the processor's caches.
PREPARED_TOGETHER = 200


@dataclass(slots=True)
class Opened:
    """What the messages of a batch held."""

    events: list[Event] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    #: What follows from the events; None if that failed: storing them then finds out which one is to blame.
    ready: dict[EventKey, PreparedMemory] | None = field(default_factory=dict)

    #: The trace of each event, if the message names one.
    traces: dict[EventKey, str] = field(default_factory=dict)
    #: How many of the events ``ready`` has been asked for.
    prepared: int = 0

    def prepare(self, least: int = 1) -> None:
        """Make what follows from the events that have come since it was last made, if there are so many."""
        if len(self.events) - self.prepared < least:
            return
        events, self.prepared = self.events[self.prepared :], len(self.events)
        ready, self.ready = self.ready, None
        if ready is not None:
            with suppress(Exception):
                inbox.prepare_all(events, ready)
                self.ready = ready


def open_messages(messages: Iterable[Taken], signatures: Signatures) -> Opened:
    """Decode messages whose signers ``signatures`` has looked up. Raises nothing."""
    opened = Opened()
    for packed in messages:
        message = packed
        try:
            if packed.compression:  # what was signed is the plain body
                body = decompressed(packed.body, packed.compression, limits.MAX_MESSAGE_BYTES)
                message = replace(packed, body=body)
        except UnreadableBodyError as error:
            opened.rejected.append(refused(packed, str(error), believed=False))
            continue
        if problem := signatures.problem(message):
            opened.rejected.append(refused(message, problem, believed=False))
        elif problem := _problem(message):
            opened.rejected.append(refused(message, problem))
        else:
            count = len(opened.events)
            _decode(message, signatures.group(message), opened)
            for trace in message.trace:
                opened.traces.update((event.key, trace) for event in opened.events[count:])
            opened.prepare(PREPARED_TOGETHER)
    opened.prepare()
    return opened


def refused(message: Taken, problem: str, *, believed: bool = True) -> Rejected:
    """A message that is not decoded. Of a large one only the beginning is kept, to spare the database."""
    body = message.body
    if len(body) > limits.MAX_MESSAGE_BYTES or event_bodies.excess_of(body):
        body = body[:KEPT_OF_TOO_LARGE]
        problem += f"; only its first {len(body):,} bytes are kept, so it cannot be replayed"
        problem += ": send its events again, in smaller messages"
    return Rejected(readable(body), problem, believed=believed)


def _decode(message: Taken, signed_for: str | None, opened: Opened) -> None:
    try:
        decoded = event_bodies.decode_checked(message.body)
    except Exception as error:  # whatever a message does to us, it must not come back for ever
        log.exception("a message could not be opened")
        why = (f"cannot be opened: {error!r}", traceback.format_exc())
        opened.rejected.append(Rejected(readable(message.body), *why))
        return
    rejected = [Rejected(*item) for item in decoded.rejected]
    if signed_for is not None:
        foreign = {event.group_id for event in decoded.events} - {signed_for}
        if foreign:
            problem = f"signed for the group {signed_for!r}, but of the group {min(foreign)!r}"
            opened.rejected.append(Rejected(readable(message.body), problem, believed=False))
            return
        for item in rejected:
            item.believed = identity(item.body)[1] == signed_for
    for event in decoded.events:
        if reason := refusal(event):
            rejected.append(Rejected(event_bodies.encode([event]).decode(), reason))
        else:
            opened.events.append(event)
    opened.rejected.extend(rejected)


def _problem(message: Taken) -> str:
    if len(message.body) > limits.MAX_MESSAGE_BYTES:
        return f"a message of {len(message.body):,} bytes is larger than {limits.MAX_MESSAGE_BYTES:,}"
    if message.content_type != wire.CONTENT_TYPE:
        return f"content type {message.content_type!r} is not {wire.CONTENT_TYPE}"
    return event_bodies.excess_of(message.body)


def readable(body: bytes) -> str:
    """A body as text that PostgreSQL can hold."""
    return body.decode("utf-8", errors="replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")


UNSIGNED = "not signed, and JIYI_ACCEPT_UNSIGNED is none; publish with an API key (JIYI_KEY)"


class Signatures:
    """Checks messages. Costs nothing where signatures are neither there nor required."""

    def __init__(self, settings: Settings) -> None:
        self._required = settings.accept_unsigned == "none"
        self._secret_key = settings.secret_key.get_secret_value()
        self._keys = known_keys()
        #: Of the batch that was looked up last.
        self._known: dict[str, ApiKey] = {}

    def look_up(self, messages: Iterable[Taken]) -> None:
        """Learn the keys of a batch, in one question at most. Raises what the database raises."""
        ids = {message.signature.key_id for message in messages if message.signature is not None}
        self._known = self._keys.get_many(key_id for key_id in ids if ID.fullmatch(key_id))

    def problem(self, message: Taken) -> str:
        """Why the message is refused unopened; empty if not. Its keys have been looked up."""
        signature = message.signature
        if signature is None:
            return UNSIGNED if self._required else ""
        if signature.key_id == SERVICE:
            return self._problem_of_service(message.body, signature)
        key = self._known.get(signature.key_id)
        if key is None or not verifies(key.signing_key, message.body, signature.value):
            return "the signature is not that of any key of this service over this message"
        refusal = key.refusal(datetime.now(UTC))
        if refusal:
            return f"signed with the key {key.key_id}, which is {refusal}"
        return "" if "publish" in key.scopes else f"signed with the key {key.key_id}, which may not publish"

    def group(self, message: Taken) -> str | None:
        """The group that an accepted message is signed for; None: any (an operator's, or unsigned)."""
        if message.signature is None:
            return None
        if message.signature.key_id == SERVICE:
            return message.signature.group_id
        return self._known[message.signature.key_id].group_id

    def _problem_of_service(self, body: bytes, signature: Signature) -> str:
        if not self._secret_key:
            return "signed by the service, but the intake does not know JIYI_SECRET_KEY"
        if verifies(service_signing_key(self._secret_key, signature.group_id), body, signature.value):
            return ""
        return "not signed by this service: is JIYI_SECRET_KEY the same in every process?"
