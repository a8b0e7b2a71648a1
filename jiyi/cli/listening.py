"""HTTP of the command line's servers: uvicorn's, whose connections may wait for ever for the rest of a
head.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds within which the head of a request has to arrive.
HEAD_SECONDS = 10.0
#: Seconds after which a thread that computes gives way to the event loop, which has let it go on at each
#: read, write and wait.
SWITCH_INTERVAL = 0.0002


class Impatient(H11Protocol):
    """Ends a connection when the head of a request does not arrive in time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._arrived()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _arrived(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
