"""Claims are short, and renewed by a thread for as long as their process lives: work of a dead worker is free
within seconds. A claim past its time limit is no longer renewed; the first worker to write has done the work.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from jiyi.settings import get_settings

log = logging.getLogger(__name__)

#: Renewals within the time of a lease: some may fail before it runs out.
RENEWALS_PER_LEASE = 4


class Held(Protocol):
    """Something claimed. ``until``: by ``time.monotonic``, when it is no longer to be renewed."""

    until: float

    def renew(self) -> None:
        """Claim it for another ``JIYI_WORK_LEASE_SECONDS``. Raises what SQLAlchemy raises."""


class LeaseRenewer:
    """Renews what this process has claimed. Its thread runs while there is anything to renew."""

    def __init__(self) -> None:
        #: By identity: equal ones may be held twice.
        self._claims: dict[int, Held] = {}
        #: Of what is held, and of which is just being renewed.
        self._lock = threading.Condition()
        self._renewed: Held | None = None
        self.thread: threading.Thread | None = None

    @contextmanager
    def holding(self, *claims: Held) -> Iterator[None]:
        """Renew each until the end of the block, or of its own time; the renewal under way is waited for."""
        with self._lock:
            self._claims |= {id(claim): claim for claim in claims}
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self._renew, name="leases", daemon=True)
                self.thread.start()
        try:
            yield
        finally:
            with self._lock:
                for claim in claims:
                    del self._claims[id(claim)]
                self._lock.wait_for(
                    lambda: not any(claim is self._renewed for claim in claims),
                    get_settings().work_lease_seconds,
                )

    def _renew(self) -> None:
        while True:
            time.sleep(get_settings().work_lease_seconds / RENEWALS_PER_LEASE)
            with self._lock:
                claims = list(self._claims.values())
                if not claims:
                    self.thread = None
                    return
            for claim in claims:
                self._renew_one(claim)

    def _renew_one(self, one: Held) -> None:
        with self._lock:
            if id(one) not in self._claims or time.monotonic() >= one.until:
                return
            self._renewed = one
        try:
            one.renew()
        except SQLAlchemyError as error:  # the next renewal may come in time
            log.warning("a claim could not be renewed: %s", error)
        finally:
            with self._lock:
                self._renewed = None
                self._lock.notify_all()


lease_renewer = LeaseRenewer()
