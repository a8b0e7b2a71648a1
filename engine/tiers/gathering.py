"""Asking several tiers at the same time, so that one that fails or hangs takes nothing from the others."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from jiyi.errors import JiyiError
from jiyi.protocol.tiers.query import Item, Tier, TierStatus

log = logging.getLogger(__name__)

#: Seconds that the tiers have together: the original's 10 for the whole request, less what the rest of it takes.
SECONDS = 8.0

Reader = Callable[[], Sequence[Item]]


class Skipped(Exception):  # noqa: N818 – its name says what happened
    """A reader has nothing to ask: its text says why, for people."""


@dataclass(slots=True)
class Gathered:
    """What the tiers gave, each with its state."""

    items: dict[Tier, list[Item]] = field(default_factory=dict)
    tiers: dict[Tier, TierStatus] = field(default_factory=dict)


def gather(readers: Mapping[Tier, Reader], seconds: float = SECONDS) -> Gathered:
    """What each reader gives, asked in threads of their own; never raises for what a reader does.

    A reader that is not done after ``seconds`` counts as failed. Nobody waits for it: it must have a time-out of its own.
    """
    begun = time.monotonic()
    done: SimpleQueue[tuple[Tier, TierStatus, list[Item]]] = SimpleQueue()
    for tier, reader in readers.items():
        context = contextvars.copy_context()  # whose rows one may see is a context variable
        threading.Thread(target=context.run, args=(_read, tier, reader, done), name=f"tier-{tier}", daemon=True).start()
    gathered = Gathered({tier: [] for tier in readers}, {tier: _late(tier, seconds) for tier in readers})
    for _ in readers:
        try:
            tier, status, items = done.get(timeout=max(begun + seconds - time.monotonic(), 0))
        except Empty:
            break
        gathered.items[tier], gathered.tiers[tier] = items, status
    return gathered


def _read(tier: Tier, reader: Reader, done: SimpleQueue[tuple[Tier, TierStatus, list[Item]]]) -> None:
    begun = time.monotonic()
    items: list[Item] = []
    try:
        items = list(reader())
        status = TierStatus(tier=tier, state="ok", found=len(items))
    except Skipped as reason:
        status = TierStatus(tier=tier, state="skipped", message=str(reason))
    except Exception as error:
        log.exception("tier %s cannot be read", tier)
        # The text of an error that is not ours may hold an address or a password.
        said = str(error) if isinstance(error, JiyiError) else f"{type(error).__name__}: see the service's log"
        status = TierStatus(tier=tier, state="failed", message=said)
    done.put((tier, status.model_copy(update={"seconds": time.monotonic() - begun}), items))


def _late(tier: Tier, seconds: float) -> TierStatus:
    return TierStatus(tier=tier, state="failed", seconds=seconds, message=f"no answer within {seconds:g} s")
