"""Signals that end the service, and the work in the main thread that they interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")


class Interrupts:
    """Has SIGINT, SIGTERM and SIGHUP from :meth:`take` to :meth:`give_back`; outside the main thread, nothing.

    Args:
        on_signal: called in the main thread with the number of each signal.
    """

    def __init__(self, on_signal: Callable[[int], None]) -> None:
        self._on_signal = on_signal
        self._handlers: dict[int, Any] = {}
        self._working = False
        self._interrupting = False

    def take(self) -> None:
        """Handle signals from now on."""
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup stays nohup
                    self._handlers[number] = signal.signal(number, self._handle)

    def give_back(self) -> None:
        """Restore the handlers that were there before."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            self._handlers.clear()

    def during(self, work: Callable[[], T]) -> T:
        """Do work that a signal, or :meth:`interrupt`, ends with KeyboardInterrupt."""
        try:
            self._working = bool(self._handlers)
            return work()
        finally:
            self._working = False

    def interrupt(self) -> None:
        """End the work that :meth:`during` does, if any. For any thread; ``on_signal`` is not called."""
        if self._working:
            self._interrupting = True
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._interrupting:
            self._interrupting = False
        else:
            self._on_signal(number)
        if self._working:
            self._working = False
            raise KeyboardInterrupt
