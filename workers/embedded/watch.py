"""Watches the embedded servers: one that ends is reaped and started again; one that cannot live is given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from workers.embedded.folders import StackError
from workers.embedded.server import Server
from workers.supervision.respawn import MAX_CRASHES, TOO_OFTEN, Restarts, describe

TICK_SECONDS = 0.2  # how often each server is looked at.


class ServerWatch:
    """A thread for each server, from the making to :meth:`stop`.

    Args:
        servers: they have been started, and answer.
        say: is told in one line when a server ended and is started again.
        give_up: is told in one sentence that a server cannot live; called at most once for each.
    """

    def __init__(self, servers: Iterable[Server], say: Callable[[str], None], give_up: Callable[[str], None]) -> None:
        self._say, self._give_up = say, give_up
        self._stop = threading.Event()
        #: Held while a server is started, so that none is after :meth:`stop`.
        self._starting = threading.Lock()
        for server in servers:
            threading.Thread(target=self._watch, args=(server,), name=f"watch-{server.name}", daemon=True).start()

    def stop(self) -> None:
        """Start nothing any more; the servers may now be ended."""
        with self._starting:
            self._stop.set()

    def _watch(self, server: Server) -> None:
        restarts, began, failed_starts, problem = Restarts(), time.monotonic(), 0, ""
        while not self._stop.wait(TICK_SECONDS):
            child = server.child
            if child is None or child.poll() is None:  # poll() reaps it
                continue
            ended = describe(child.returncode)
            # A server has nobody who asks it to end but us, so a clean exit is a crash here.
            pause = restarts.pause(child.returncode or 1, began, time.monotonic())
            if pause is None or failed_starts >= MAX_CRASHES:
                self._give_up(f"the embedded {server.name} cannot live: {problem or ended}, {TOO_OFTEN}. Its log: {server.log}")
                return
            self._say(f"the embedded {server.name} is away: {ended}; starting it again in {pause:g} s")
            if self._stop.wait(pause):
                return
            began = time.monotonic()
            try:
                self._restart(server)
            except (StackError, OSError) as error:
                failed_starts, problem = failed_starts + 1, str(error).partition(" Last lines of ")[0].rstrip(".")
            else:
                failed_starts, problem = 0, ""

    def _restart(self, server: Server) -> None:
        server.end_leftovers()
        with self._starting:
            if self._stop.is_set():
                return
            server.restart()
        try:
            server.await_answers()
        except StackError:
            if server.child is not None and not self._stop.is_set():
                server.child.kill()  # one that does not answer is as good as dead, and the next one needs its place
                server.child.wait()
            raise
        if not self._stop.is_set():
            self._say(f"the embedded {server.name} is back")
