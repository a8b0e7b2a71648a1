"""workers.supervision.supervise: restarts, gives up, ends in good order, leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from jiyi.polling import poll
from workers.supervision import restarts, supervise
from workers.supervision.supervise import Supervisor

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 60.0  # a slow machine under load; the ordinary case takes a fraction of a second.
NOTE_PID = "import os, sys, time\nopen('pids', 'a').write(f'{os.getpid()} ')\n"


Seconds = Callable[..., None]


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    """Sets seconds of a module, by their names."""

    def set_to(module: ModuleType, **values: float) -> None:
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)

    return set_to


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: Seconds) -> None:
    seconds(restarts, BACKOFF_FIRST_SECONDS=0.01)
    monkeypatch.chdir(tmp_path)


def started(program: str) -> Supervisor:
    supervisor = Supervisor(
        {"web": [sys.executable, "-c", program]}, dict(os.environ), quiet=True, log_dir=Path()
    )
    supervisor.start()
    return supervisor


def until(condition: Callable[[], bool]) -> None:
    assert poll(condition, bool, PATIENCE_SECONDS), "waited too long"


def pids(count: int) -> list[int]:
    """The process ids that the programs have noted, once there are as many as expected."""
    path = Path("pids")
    until(lambda: path.exists() and len(path.read_text().split()) >= count)
    return [int(word) for word in path.read_text().split()]


def gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_program_that_always_crashes_is_given_up_and_what_it_left_behind_is_ended() -> None:
    program = NOTE_PID + "import subprocess\nsleep = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
    program += "open('pids', 'a').write(f'{subprocess.Popen(sleep).pid} '); sys.exit(3)"
    supervisor = started(program)
    assert supervisor.wait() == 3
    noted = pids(2 * restarts.MAX_CRASHES)
    assert len(noted) == 2 * restarts.MAX_CRASHES
    until(lambda: all(map(gone, noted)))
    output = Path("web.log").read_text()
    assert output.count("web: it ended with exit code 3 after") == restarts.MAX_CRASHES - 1
    assert "giving up" in output


def test_a_clean_exit_is_no_crash_however_often_it_happens(seconds: Seconds) -> None:
    """Who may shut a worker down could end the service, by doing so seven times within a minute."""
    seconds(restarts, BACKOFF_MOST_SECONDS=0.01)
    supervisor = started(NOTE_PID)
    pids(2 * restarts.MAX_CRASHES)
    assert not supervisor.ending
    supervisor.stop()
    assert supervisor.wait() == 0


def test_pauses_between_restarts_grow_and_start_over_after_a_good_run(seconds: Seconds) -> None:
    seconds(restarts, BACKOFF_FIRST_SECONDS=0.5)
    policy = restarts.Restarts()
    pauses = [policy.pause(0, now - 1.0, now) for now in range(10)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses[-1] == restarts.BACKOFF_MOST_SECONDS
    assert policy.pause(1, 100.0, 100.0 + restarts.GOOD_RUN_SECONDS) == restarts.BACKOFF_FIRST_SECONDS
    given_up = [policy.pause(1, 300.0, 300.0 + n) is None for n in range(restarts.MAX_CRASHES)]
    assert given_up == [False] * 4 + [True]
    seconds(restarts, BACKOFF_FIRST_SECONDS=60.0, BACKOFF_MOST_SECONDS=60.0)
    supervisor = started(NOTE_PID + "sys.exit(1)")
    until(lambda: "starting it again in 60 s" in Path("web.log").read_text())
    supervisor.stop()
    assert supervisor.wait() == 0  # a stop during the pause ends at once
    assert len(pids(1)) == 1


def test_a_killed_program_is_started_again_and_the_signal_is_named() -> None:
    supervisor = started(NOTE_PID + "time.sleep(60)")
    os.kill(pids(1)[0], signal.SIGKILL)
    second = pids(2)[1]
    supervisor.stop()
    assert supervisor.wait() == 0
    assert "killed by signal 9 (Killed)" in Path("web.log").read_text()
    assert gone(second)


def test_a_program_may_end_in_good_order_and_one_that_does_not_is_killed(seconds: Seconds) -> None:
    seconds(supervise, GRACE_SECONDS=2.0)
    program = "import signal, sys, time\n"
    program += "def end(*_): time.sleep(0.2); print('tidied up', flush=True); sys.exit(7)\n"
    supervisor = started(program + "signal.signal(signal.SIGTERM, end)\n" + NOTE_PID + "time.sleep(60)")
    pids(1)
    supervisor.stop()
    assert supervisor.wait() == 0
    assert "tidied up" in Path("web.log").read_text()
    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    stubborn = started(ignoring + NOTE_PID + "time.sleep(60)")
    child = pids(2)[1]
    stubborn.stop()
    assert stubborn.wait() == 0
    assert gone(child)
    assert "starting it again" not in Path("web.log").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next start ends them")
def test_programs_of_ours_end_with_a_supervisor_that_is_killed() -> None:
    sleeping = f"import workers\n{NOTE_PID}time.sleep(60)"
    code = "import os, sys, time\nfrom workers.supervision.supervise import Supervisor\n"
    code += f"program = [sys.executable, '-c', {sleeping!r}]\n"
    code += "Supervisor({'web': program}, dict(os.environ)).start(); time.sleep(60)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    supervisor = subprocess.Popen([sys.executable, "-c", code], env=environment)
    (child,) = pids(1)
    supervisor.kill()
    supervisor.wait()
    until(lambda: gone(child))
