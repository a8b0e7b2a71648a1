"""Start the service's processes, restart those that end, and end them all together.

honcho prints. Its ``Manager`` is not used: it forks readers, which keep the home's lock after a crash,
restarts nothing, takes no second Ctrl-C, and only a signal can stop it.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, TypeVar

from honcho.colour import get_colours
from honcho.printer import Message, Printer

from workers import SUPERVISOR
from workers.embedded.stack import Stack
from workers.supervision import processes
from workers.supervision.processes import open_log
from workers.supervision.restarts import TOO_OFTEN, Restarts, describe

# for all processes together; then SIGKILL. Work that is cut off stays pending in the database.
GRACE_SECONDS = 8.0
# how often the watch looks for deadlines and for processes whose children hold their output open.
TICK_SECONDS = 0.2
READERS_SECONDS = 2.0  # for the last lines of output after everything was killed.
SIGNAL_EXIT_BASE = 128  # the shell's code for an end by signal N is 128 + N.
EXIT_NOT_FOUND = 127  # the shell's code for a command that cannot be started.
ROOT = Path(__file__).resolve().parents[2]  # where the package `workers` is imported from.

T = TypeVar("T")


class Supervisor:
    """Runs named commands, each restarted when it ends; when one crashes too often, all end.

    All but :meth:`start` may be called from any thread. In the main thread :meth:`start` takes over the stop
    signals until :meth:`wait` returns: the first ends all, a second kills at once. ``stack`` learns the
    process
    ids and has the logs; without it ``log_dir``, None: no logs. ``quiet``: nothing on the terminal.
    """

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        env: Mapping[str, str],
        *,
        quiet: bool = False,
        stack: Stack | None = None,
        log_dir: Path | None = None,
    ) -> None:
        self.returncode = 0
        self._commands = commands
        path = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH", "")]))
        # Unbuffered: a line is worth most at the moment it is written, above all the last one before a crash.
        self._env = {**env, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", SUPERVISOR: str(os.getpid())}
        self._output = ProcessOutput(commands, quiet=quiet)
        self._stack = stack
        self._log_dir = stack.log_dir if stack else log_dir
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._threads: dict[str, threading.Thread] = {}
        # Re-entrant: a signal handler may call stop() while the main thread is inside it.
        self._stop_guard = threading.RLock()
        self._stopping = threading.Event()
        self._done = threading.Event()
        self._killed = False
        self._deadline = math.inf
        self._interrupts = Interrupts(self._on_signal)

    @property
    def ending(self) -> bool:
        """Whether the processes have been asked to end, or have ended."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Start every process. Raises OSError, with all ended again, if a log file cannot be made."""
        self._interrupts.take()
        threading.Thread(target=self._watch, name="supervisor-watch", daemon=True).start()
        try:
            for (name, command), colour in zip(self._commands.items(), get_colours(), strict=False):
                if self.ending:
                    break
                log = open_log(self._log_dir / f"{name}.log") if self._log_dir else None
                self._threads[name] = threading.Thread(
                    target=self._run, args=(name, command, colour, log), name=f"run-{name}", daemon=True
                )
                self._threads[name].start()
        except BaseException:
            self.stop(1)
            self.wait()
            raise

    def foreground(self, work: Callable[[], T]) -> T | None:
        """Do ``work`` in the calling thread while the processes run; None if it was interrupted.

        In the main thread a signal or a process that gives up interrupts it.
        """
        try:
            # Looked at inside: a process that gives up from then on interrupts the work.
            return self._interrupts.during(lambda: None if self.ending else work())
        except KeyboardInterrupt:
            self.stop(SIGNAL_EXIT_BASE + signal.SIGINT)
            return None

    def stop(self, returncode: int = 0) -> None:
        """Ask every process to end, once; :meth:`wait` then gives ``returncode``."""
        with self._stop_guard:
            if self.ending:
                return
            self.returncode = returncode
            self._deadline = time.monotonic() + GRACE_SECONDS
            self._stopping.set()
            for child in list(self._children.values()):
                child.terminate()

    def kill(self) -> None:
        """End every process, and what it has started, at once."""
        self.stop(SIGNAL_EXIT_BASE + signal.SIGKILL)
        self._killed = True
        for child in list(self._children.values()):
            _kill_session(child)

    def wait(self) -> int:
        """Wait until all have ended: 130 or 143 after a signal, or the code of :meth:`stop` or of who gave
        up.
        """
        for thread in list(self._threads.values()):
            # A daemon that has left its session may hold the output open for ever: do not wait for that one.
            while thread.is_alive() and time.monotonic() < self._deadline + READERS_SECONDS:
                thread.join(TICK_SECONDS)
        self._done.set()
        self._interrupts.give_back()
        return self.returncode

    def _run(self, name: str, command: Sequence[str], colour: str, log: BinaryIO | None) -> None:
        """Keep one program running, until all are asked to end or it crashes too often."""
        restarts = Restarts()

        def say(text: str) -> None:
            self._output.copy([f"{name}: {text}\n".encode()], name, colour, log)

        with log or contextlib.nullcontext():
            while not self.ending:
                began = time.monotonic()
                code = self._run_once(name, command, colour, log)
                if self.ending:
                    return
                pause = restarts.pause(code, began, time.monotonic())
                if pause is None:
                    say(f"{describe(code)}; it has crashed {TOO_OFTEN}: giving up. The lines above say why.")
                    break
                ran = time.monotonic() - began
                say(f"{describe(code)} after {ran:.1f} s; starting it again in {pause:g} s")
                self._stopping.wait(pause)
        if not self.ending:
            code = code if code > 0 else SIGNAL_EXIT_BASE - code
            reason = f". Its log: {self._log_dir / f'{name}.log'}" if self._log_dir else ""
            self.give_up(f"{name} has given up (exit code {code}){reason}", code)

    def _run_once(self, name: str, command: Sequence[str], colour: str, log: BinaryIO | None) -> int:
        """The program's exit code, when it and all that it has started have ended."""
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,  # Ctrl-C comes to us alone, and we end them in order
            )
        except OSError as error:
            problem = f"{name}: {command[0]!r} cannot be started: {error.strerror}\n"
            self._output.copy([problem.encode()], name, colour, log)
            return EXIT_NOT_FOUND
        self._children[name] = child
        if self._stack is not None:
            self._stack.track(child.pid, name)
        self._output.show(f"{name} started (pid {child.pid})")
        if self.ending:  # asked for while this one was being started
            child.terminate()
        assert child.stdout is not None
        with child.stdout:
            self._output.copy(child.stdout, name, colour, log)
        code = child.wait()
        # what it has left behind would hold its sockets and its locks against the next one
        _kill_session(child)
        return code

    def say(self, line: str) -> None:
        """Show people a line even when nothing of the processes' output is shown."""
        self._output.show(line, always=True)

    def give_up(self, sentence: str, returncode: int = 1) -> None:
        """Say why, and end all processes and what the main thread does meanwhile."""
        if self.ending:
            return
        self.say(f"{sentence}; ending all processes")
        self.stop(returncode)
        self._interrupts.interrupt()

    def _watch(self) -> None:
        """See to deadlines, and to what a program that has ended left behind: its output would never end."""
        while not self._done.wait(TICK_SECONDS):
            for child in list(self._children.values()):
                if child.poll() is not None and not child.stdout.closed:  # type: ignore[union-attr]
                    _kill_session(child)
            if self.ending and not self._killed and time.monotonic() >= self._deadline:
                self._output.show(f"not all processes have ended within {GRACE_SECONDS:g} s: killing them")
                self.kill()

    def _on_signal(self, number: int) -> None:
        if self.ending:
            self.kill()
        else:
            self.stop(SIGNAL_EXIT_BASE + number)


def run(
    commands: dict[str, list[str]],
    env: dict[str, str],
    *,
    quiet: bool,
    on_started: Callable[[], int | None] | None = None,
    stack: Stack | None = None,
) -> int:
    """Run processes until Ctrl-C, SIGTERM, one gives up, or ``on_started`` returns a number.

    ``on_started``: work in the main thread once all are started; its exceptions end them, too. ``stack``: its
    servers are restarted, and not stopped. Returns 130 or 143 after a signal, that number, or the code of the
    process that gave up.
    """
    supervisor = Supervisor(commands, env, quiet=quiet, stack=stack)
    supervisor.start()
    if stack is not None:
        stack.watch(supervisor.say, supervisor.give_up)
    try:
        if on_started is not None:
            code = supervisor.foreground(on_started)
            if code is not None:
                supervisor.stop(code)
        return supervisor.wait()
    except BaseException:
        supervisor.stop(1)
        supervisor.wait()
        raise


def _kill_session(child: subprocess.Popen[bytes]) -> None:
    processes.kill(processes.session_members(child.pid))
    child.kill()  # no signal is sent when it has been waited for


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Has the stop signals from :meth:`take` to :meth:`give_back` if this is the main thread."""

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


SYSTEM = "system"  # name before the supervisor's own lines.


class ProcessOutput:
    """The terminal, shared by the processes' readers. ``quiet``: print nothing but what is always said."""

    def __init__(self, names: Iterable[str], *, quiet: bool) -> None:
        self._quiet = quiet
        self._gone = False
        self._printer = Printer(sys.stdout, width=max(map(len, [*names, SYSTEM])))
        self._guard = threading.Lock()

    def copy(self, lines: Iterable[bytes], name: str, colour: str, log: BinaryIO | None) -> None:
        """Show and keep what one process prints, until its output ends."""
        for line in lines:
            if log is not None:
                # A full disk must not stop the reading: the process would block on its output.
                with contextlib.suppress(OSError):
                    log.write(line)
                    log.flush()
            self.show(line, name, colour)

    def show(
        self, line: str | bytes, name: str = SYSTEM, colour: str | None = None, *, always: bool = False
    ) -> None:
        """Print one line; ``always``: even if the rest is kept out of the terminal."""
        if self._gone or (self._quiet and not always):
            return
        with self._guard:
            try:
                now = datetime.now().astimezone()
                self._printer.write(Message(type="line", data=line, time=now, name=name, colour=colour))
            except (OSError, ValueError):  # the terminal is gone; the processes need not end for that
                self._gone = True
