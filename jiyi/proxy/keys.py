"""Which keys the service knows; before it has said so, nothing is made for a key."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Literal

import httpx2

from jiyi.chat.recent import Recent
from jiyi.client.http import API, GROUP_HEADER
from jiyi.errors import JiyiError, words_of
from jiyi.protocol.limits import TRUSTED_SECONDS

log = logging.getLogger(__name__)

#: Seconds that the service may take to say whether it knows a key: right after a start it is slow.
CHECK_SECONDS = 5.0
#: Seconds that a key counts as good after the service knew it. So long it is not asked again.
KNOWN_SECONDS = 60.0
#: Seconds without a question after one to which there was no answer.
PAUSE_SECONDS = 2.0
#: Keys of which is kept that they are good.
MOST_KEYS = 1_000
#: Questions at a time.
MOST_QUESTIONS = 20
#: Keys of one address that the service did not know, in so many seconds; of more it is not asked, and itself
#: refuses 120.
MOST_WRONG, WRONG_SECONDS = 60, 60.0
#: Addresses of which these are counted.
MOST_ADDRESSES = 10_000

Outcome = Literal["known", "wrong", "busy", "away"]


class WrongKey(JiyiError):  # noqa: N818 – its name says what happened
    """The service does not know the key."""

    code = "wrong_key"


class Busy(JiyiError):  # noqa: N818 – its name says what happened
    """Nobody says whether the key is good, for there are too many questions."""

    code = "busy"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key that the service knew: when, and whose it is."""

    at: float
    group: str | None


class KeyChecker:
    """Of one service and one event loop.

    Args:
        service: its address.
        trusted_seconds: how long a key counts as good after the service last knew it, while the service is
        away.
    """

    def __init__(
        self, service: str, trusted_seconds: float = TRUSTED_SECONDS, http: httpx2.AsyncClient | None = None
    ) -> None:
        limits = httpx2.Limits(max_connections=MOST_QUESTIONS)
        self._http = http or httpx2.AsyncClient(timeout=CHECK_SECONDS, limits=limits, follow_redirects=False)
        self._trusted_seconds = trusted_seconds
        self._url = f"{service.rstrip('/')}{API}/tools"
        self._known: Recent[str, KnownKey] = Recent(MOST_KEYS)
        self._questions: dict[str, asyncio.Task[Outcome]] = {}
        self._away_until = float("-inf")
        #: By addresses: how many wrong keys since when.
        self._wrong: Recent[str, tuple[float, int]] = Recent(MOST_ADDRESSES)

    async def check(self, key: str, address: str, seconds: float = CHECK_SECONDS) -> KnownKey | None:
        """What the service says of a key; while it is away, what it last said, for as long as that is
        trusted.

        Args:
            key: a key, which need not be a good one.
            address: whose it is; of too many wrong keys of one address the service is not asked.
            seconds: longest to wait.

        Raises:
            WrongKey: the service does not know it.
            Busy: there are too many questions.
        """
        known_key, now = self._known.get(key), time.monotonic()
        if known_key is not None and now - known_key.at < KNOWN_SECONDS:
            return known_key
        if now >= self._away_until:
            if known_key is None and self._wrong_of(address, now) >= MOST_WRONG:
                raise Busy("too many wrong keys came from this address")
            outcome = await self._outcome(key, seconds)
            if outcome == "wrong":
                self._count_wrong(address, time.monotonic())
                raise WrongKey("the memory service does not know this key, or it has expired")
            if outcome == "busy":
                raise Busy("the memory service cannot check this key now: too many requests")
        known_key = self._known.get(key)
        return (
            known_key
            if known_key is not None and time.monotonic() - known_key.at < self._trusted_seconds
            else None
        )

    async def close(self) -> None:
        """Release the connections."""
        for question in self._questions.values():
            question.cancel()
        await self._http.aclose()

    async def _outcome(self, key: str, seconds: float) -> Outcome:
        """Requests that come together wait for one answer."""
        question = self._questions.get(key)
        if question is None:
            question = self._questions[key] = asyncio.get_running_loop().create_task(self._ask(key))
            question.add_done_callback(lambda _: self._questions.pop(key, None))
        ready, _ = await asyncio.wait({question}, timeout=seconds)
        return question.result() if ready else "away"

    async def _ask(self, key: str) -> Outcome:
        try:
            response = await self._http.get(
                self._url, headers={"Authorization": f"Bearer {key}"}, timeout=CHECK_SECONDS
            )
        except httpx2.PoolTimeout:
            return "busy"
        except httpx2.HTTPError as error:
            log.warning("the memory service cannot be reached: %s", words_of(error))
            self._away_until = time.monotonic() + PAUSE_SECONDS
            return "away"
        if response.is_success:
            self._known[key] = KnownKey(time.monotonic(), response.headers.get(GROUP_HEADER))
            return "known"
        if response.is_server_error:
            log.warning("the memory service answered %d", response.status_code)
            self._away_until = time.monotonic() + PAUSE_SECONDS
            return "away"
        self._known.pop(key, None)  # 429 too: a caller that asks often must not keep a key that was revoked
        return "wrong" if response.status_code in (401, 403) else "busy"

    def _wrong_of(self, address: str, now: float) -> int:
        since, count = self._wrong.get(address, (now, 0))
        return count if now - since < WRONG_SECONDS else 0

    def _count_wrong(self, address: str, now: float) -> None:
        count = self._wrong_of(address, now)
        since = self._wrong[address][0] if count else now
        self._wrong[address] = (since, count + 1)
