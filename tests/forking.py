"""Processes of the service that begin as copies of one that has loaded the service's modules: to load them is
most of a start.

What reads settings as it is imported (``workers.app``, the intake) is not among them, and a copy has the
environment, folder and output that it was given. That the commands themselves start is tested elsewhere: by
``jiyi up``, the image's and the supervisor's tests.

python -m tests.forking DESCRIPTOR      # the process that is copied; the socket tells it of what
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO

from workers.migrate import CHECKOUT

#: What every process of the service loads, whatever its settings.
MODULES = (
    "celery.bin.celery",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.worker.consumer",
    "models.actions",
    "web",
    "web.stream",
)
#: Bytes of a request: a command and an environment.
MAX_BYTES = 1 << 20
_SUBJECTS = os.environ.get("JIYI_SUBJECTS")


class Copy(subprocess.Popen[bytes]):
    """A child of somebody else's that is used as one's own; ``news`` tells its number and, in the end, its
    exit code.
    """

    def __init__(self, args: Sequence[str], news: socket.socket) -> None:
        # Deliberately not super().__init__(): it has begun.
        self.args, self._news, self._child_created = list(args), news, False
        self.stdin = self.stdout = self.stderr = None
        self.returncode: int | None = None
        self.pid = int(news.recv(MAX_BYTES))

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._news, select.POLLIN)
            if waiting.poll(None if timeout is None else timeout * 1000):
                self.returncode = int(self._news.recv(MAX_BYTES))
                self._news.close()
        return self.returncode


def begin(
    command: Sequence[str], output: IO[bytes], env: dict[str, str] | None = None, cwd: Path = CHECKOUT
) -> subprocess.Popen[bytes]:
    """As ``subprocess.Popen`` would, its output in ``output``; whatever is not Python's is begun by that."""
    env = dict(os.environ) if env is None else env
    other_modules = env.get("JIYI_SUBJECTS") != _SUBJECTS
    if (
        sys.platform != "linux"
        or other_modules
        or command[0] != sys.executable
        or command[1] not in ("-m", "-c")
    ):
        return subprocess.Popen(command, cwd=cwd, stdout=output, stderr=subprocess.STDOUT, env=env)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        request = json.dumps({"command": list(command[1:]), "env": env, "cwd": str(cwd)}).encode()
        socket.send_fds(_original(), [request], [output.fileno(), theirs.fileno()])
    return Copy(command, ours)


@cache
def _original() -> socket.socket:
    """The socket of the process that is copied, which ends when nobody has the socket any more."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.forking", str(theirs.fileno())]
        original = subprocess.Popen(
            command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )

    def end() -> None:
        ours.close()
        original.kill()  # it may not notice: whatever a test has forked has the socket, too
        original.wait()

    atexit.register(end)
    return ours


def main(descriptor: int) -> None:
    for module in MODULES:
        importlib.import_module(module)
    from jiyi.settings import get_settings  # here, as all that is ours: the copies' settings are their own

    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, threading.enumerate()  # a copy would have none of the others
    with socket.socket(fileno=descriptor) as asked:
        while True:
            request, descriptors, *_ = socket.recv_fds(asked, MAX_BYTES, 2)
            if not request:
                return
            output, news = descriptors
            if os.fork() == 0:
                break
            os.close(output)
            os.close(news)
            _reap()
    _watch_over_the_rest(news)
    get_settings.cache_clear()
    told = json.loads(request)
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(told["env"])
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    option, program, *arguments = told["command"]
    sys.argv = [option, *arguments]
    if option == "-c":
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _reap() -> None:
    """Those that have told how their copies ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return
        except ChildProcessError:
            return


def _watch_over_the_rest(news: int) -> None:
    """Returns in a child, which becomes the copy; the process itself tells the child's number, and in the end
    its exit code.
    """
    child = os.fork()
    if child == 0:
        os.close(news)
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.write(news, str(child).encode())
    _, status = os.waitpid(child, 0)
    os.write(news, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
