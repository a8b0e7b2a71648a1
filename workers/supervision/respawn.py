"""Run one program and start it again when it ends by itself: ``python -m workers.supervision.respawn NAME -- COMMAND…``.

The program runs in its own process group within this process's session. Signals therefore reach only its main
process, which can end its children in good order (a group-wide SIGTERM would kill Celery's pool in the middle
of its tasks); and whoever wants everything gone at once finds it by the session.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType

STOP_SECONDS = 7.0  # for a graceful end; shorter than the supervisor's patience, so that the message is ours.
PARENT_CHECK_SECONDS = 1.0  # how soon a killed supervisor is noticed.
EXIT_USAGE = 2  # the customary code for wrong arguments.
EXIT_NOT_FOUND = 127  # the shell's code for a command that cannot be started.
SIGNAL_EXIT_BASE = 128  # the shell's code for an end by signal N is 128 + N.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Respawner:
    """Keeps one program running.

    Args:
        name: what people call it; begins every message.
        command: the program and its arguments.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.command = list(command)
        self._parent = os.getppid()
        self._child: subprocess.Popen[bytes] | None = None
        self._stop_signal: int | None = None
        self._stop_deadline = 0.0

    def run(self) -> int:
        """Run until asked to stop or until the program crashes too often. Main thread only.

        Returns:
            0 after a requested end, otherwise the program's exit code (128 + N when signal N killed it).
        """
        with self._signals() as wakeup:
            restarts = Restarts()
            while True:
                began = time.monotonic()
                code = self._run_once(wakeup)
                now = time.monotonic()
                if self._stop_signal is not None:
                    return 0
                pause = restarts.pause(code, began, now)
                if pause is None:
                    self._say(f"{describe(code)}; it has crashed {TOO_OFTEN}: giving up. The reason is in the lines above.")
                    return _exit_code(code)
                self._say(f"{describe(code)} after {now - began:.1f} s; starting it again in {pause:g} s")
                if self._pause(wakeup, pause):
                    return 0

    def _run_once(self, wakeup: int) -> int:
        try:
            self._child = child = subprocess.Popen(self.command, process_group=0)
        except OSError as error:
            self._say(f"{self.command[0]!r} cannot be started: {error.strerror}")
            return EXIT_NOT_FOUND
        if self._stop_signal is not None:  # it came while the program was being started
            self._forward(self._stop_signal)
        while child.poll() is None:
            self._check_parent()
            if self._stop_signal is not None and time.monotonic() >= self._stop_deadline:
                self._say(f"it has not ended within {STOP_SECONDS:g} s: killing it")
                child.kill()
                child.wait()
                break
            patience = self._stop_deadline - time.monotonic() if self._stop_signal else PARENT_CHECK_SECONDS
            _sleep(wakeup, max(0.0, min(patience, PARENT_CHECK_SECONDS)))
        # What the program has left behind would hold its sockets and its locks against the next one.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        self._child = None
        return child.returncode

    def _pause(self, wakeup: int, seconds: float) -> bool:
        """Wait before a restart. Returns whether a stop was asked for meanwhile."""
        deadline = time.monotonic() + seconds
        while self._stop_signal is None and (left := deadline - time.monotonic()) > 0:
            self._check_parent()
            _sleep(wakeup, min(left, PARENT_CHECK_SECONDS))
        return self._stop_signal is not None

    def _check_parent(self) -> None:
        """A supervisor that was killed cannot end us; without it nobody would."""
        if self._stop_signal is None and os.getppid() != self._parent:
            self._say("its supervisor is gone: stopping it")
            self._stop(signal.SIGTERM, None)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        if self._stop_signal is None:
            self._stop_signal = number
            self._stop_deadline = time.monotonic() + STOP_SECONDS
        self._forward(number)

    def _forward(self, number: int) -> None:
        if self._child is not None:
            self._child.send_signal(number)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[int]:
        """Handle signals; yields a descriptor that becomes readable with each, so that none is missed."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        before = {number: signal.signal(number, self._stop) for number in STOP_SIGNALS}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(previous)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(reader)
            os.close(writer)

    def _say(self, text: str) -> None:
        # A closed terminal or a dead supervisor must not keep the program from being stopped.
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{self.name}: {text}\n")
            sys.stderr.flush()


def _sleep(wakeup: int, seconds: float) -> None:
    if select.select([wakeup], [], [], seconds)[0]:
        os.read(wakeup, select.PIPE_BUF)


def _exit_code(code: int) -> int:
    if code < 0:
        return SIGNAL_EXIT_BASE - code
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry.

    Args:
        arguments: ``NAME -- COMMAND…``; taken from the command line if None.

    Returns:
        The exit code of :meth:`Respawner.run`, or 2 when the arguments are wrong.
    """
    # Not argparse: it would swallow a second "--", which may belong to the command.
    match list(sys.argv[1:] if arguments is None else arguments):
        case [name, "--", _, *_] as given:
            return Respawner(name, given[2:]).run()
    sys.stderr.write("usage: python -m workers.supervision.respawn NAME -- COMMAND [ARGUMENT …]\n")
    return EXIT_USAGE


BACKOFF_FIRST_SECONDS = 0.5  # a passing fault (a server that restarts) is often over by then.
BACKOFF_MOST_SECONDS = 10.0  # longer would look like an outage to people.
GOOD_RUN_SECONDS = 60.0  # a program that ran this long had started well: its back-off begins anew.
MAX_CRASHES = 5  # within CRASH_WINDOW_SECONDS; more tries would only bury the cause in the log.
CRASH_WINDOW_SECONDS = 60.0
TOO_OFTEN = f"{MAX_CRASHES} times within {CRASH_WINDOW_SECONDS:.0f} seconds"


class Restarts:
    """The ends of one program, and what follows from them."""

    def __init__(self) -> None:
        self._crashes: collections.deque[float] = collections.deque(maxlen=MAX_CRASHES)
        self._backoff = BACKOFF_FIRST_SECONDS

    def pause(self, code: int, began: float, now: float) -> float | None:
        """Seconds to wait before it is started again; None if it has crashed too often, and is to be given up.

        Args:
            code: how it ended. A clean exit (0) is no crash: whoever asked for it only has it started anew.
            began: when it was started, by ``time.monotonic``.
            now: when it ended, by the same clock.
        """
        if code:
            self._crashes.append(now)
            if len(self._crashes) == MAX_CRASHES and now - self._crashes[0] <= CRASH_WINDOW_SECONDS:
                return None
        if now - began >= GOOD_RUN_SECONDS:
            self._backoff = BACKOFF_FIRST_SECONDS
        pause = self._backoff
        self._backoff = min(self._backoff * 2, BACKOFF_MOST_SECONDS)
        return pause


def describe(code: int) -> str:
    """How a program ended, in words."""
    if code < 0:
        return f"it was killed by signal {-code} ({signal.strsignal(-code) or 'unknown'})"
    return f"it ended with exit code {code}"


if __name__ == "__main__":
    sys.exit(main())
