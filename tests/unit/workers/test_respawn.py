"""workers.supervision.respawn: restarts, gives up, passes signals on, leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from workers.supervision import respawn

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
PATIENCE_SECONDS = 60.0  # a slow machine under load; the ordinary case takes a fraction of a second.


def start(tmp_path: Path, program: str, **constants: float) -> subprocess.Popen[str]:
    """A respawner, in a process of its own, with shortened times, around a Python program."""
    script = tmp_path / "program.py"
    script.write_text(program, encoding="utf-8")
    settings = {"BACKOFF_FIRST_SECONDS": 0.01, **constants}
    code = "import sys; from workers.supervision import respawn\n"
    code += "".join(f"respawn.{name} = {value}\n" for name, value in settings.items())
    code += f"sys.exit(respawn.main(['web', '--', sys.executable, {str(script)!r}, '--', 'argument']))"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def pids(path: Path, count: int) -> list[int]:
    """The process ids in a file, once there are as many as expected."""
    until(lambda: path.exists() and len(path.read_text().split()) >= count)
    return [int(word) for word in path.read_text().split()]


def gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


NOTE_PID = "import os, sys, time\nopen('pids', 'a').write(f'{os.getpid()} ')\n"


def test_a_program_that_always_crashes_is_given_up_with_its_exit_code(tmp_path: Path) -> None:
    process = start(tmp_path, NOTE_PID + "print(sys.argv); sys.exit(3)")
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 3
    assert len((tmp_path / "pids").read_text().split()) == respawn.MAX_CRASHES
    assert output.count("web: it ended with exit code 3 after") == respawn.MAX_CRASHES - 1
    assert "giving up" in output
    assert "'--', 'argument'" in output


def test_a_clean_exit_is_no_crash_however_often_it_happens(tmp_path: Path) -> None:
    """Whoever may shut a worker down could end the service, by doing so seven times within a minute."""
    process = start(tmp_path, NOTE_PID, BACKOFF_MOST_SECONDS=0.01)
    pids(tmp_path / "pids", 2 * respawn.MAX_CRASHES)
    assert process.poll() is None
    process.terminate()
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert "giving up" not in output
    assert output.count("web: it ended with exit code 0 after") >= 2 * respawn.MAX_CRASHES - 1


def test_pauses_between_restarts_grow_and_start_anew_after_a_good_run(tmp_path: Path) -> None:
    policy = respawn.Restarts()
    pauses = [policy.pause(0, now - 1.0, now) for now in range(10)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses[-1] == respawn.BACKOFF_MOST_SECONDS
    assert policy.pause(1, 100.0, 100.0 + respawn.GOOD_RUN_SECONDS) == respawn.BACKOFF_FIRST_SECONDS
    assert [policy.pause(1, 300.0, 300.0 + n) is None for n in range(respawn.MAX_CRASHES)] == [False] * 4 + [True]
    process = start(tmp_path, NOTE_PID + "sys.exit(1)", BACKOFF_FIRST_SECONDS=60.0, BACKOFF_MOST_SECONDS=60.0)
    assert process.stdout is not None
    assert "starting it again in 60 s" in process.stdout.readline()
    process.terminate()
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0  # a stop during the pause ends at once
    assert len((tmp_path / "pids").read_text().split()) == 1


def test_a_killed_program_is_started_again_and_the_signal_is_named(tmp_path: Path) -> None:
    process = start(tmp_path, NOTE_PID + "time.sleep(60)")
    os.kill(pids(tmp_path / "pids", 1)[0], signal.SIGKILL)
    second = pids(tmp_path / "pids", 2)[1]
    process.terminate()
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert "killed by signal 9 (Killed)" in output
    assert gone(second)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_program_which_may_end_in_good_order(tmp_path: Path, number: int) -> None:
    program = "import signal, sys, time\n"
    program += "def end(*_): time.sleep(0.2); print('tidied up', flush=True); sys.exit(7)\n"
    program += f"signal.signal({int(number)}, end)\n"
    process = start(tmp_path, program + NOTE_PID + "time.sleep(60)")
    pids(tmp_path / "pids", 1)
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert "tidied up" in output
    assert "starting it again" not in output


def test_a_program_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + NOTE_PID + "time.sleep(60)"
    process = start(tmp_path, program, STOP_SECONDS=0.3)
    (child,) = pids(tmp_path / "pids", 1)
    process.terminate()
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert "killing it" in output
    assert gone(child)


def test_what_the_program_leaves_behind_is_ended_before_the_restart(tmp_path: Path) -> None:
    program = "import subprocess, sys\n"
    program += "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    program += "open('pids', 'a').write(f'{child.pid} '); sys.exit(1)"
    process = start(tmp_path, program)
    process.communicate(timeout=PATIENCE_SECONDS)
    children = pids(tmp_path / "pids", respawn.MAX_CRASHES)
    until(lambda: all(map(gone, children)))


def test_it_ends_with_its_supervisor(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(NOTE_PID + "time.sleep(60)", encoding="utf-8")
    code = "import subprocess, sys, time\n"
    code += "command = [sys.executable, '-m', 'workers.supervision.respawn', 'web', '--', sys.executable, 'program.py']\n"
    code += "subprocess.Popen(command); time.sleep(60)"
    supervisor = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT)
    (child,) = pids(tmp_path / "pids", 1)
    guardian = psutil.Process(child).ppid()
    supervisor.kill()
    supervisor.wait()
    until(lambda: gone(child) and gone(guardian))


def test_a_missing_program_is_named_and_wrong_arguments_show_the_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; from workers.supervision import respawn; respawn.BACKOFF_FIRST_SECONDS = 0.01\n"
    code += "sys.exit(respawn.main(['web', '--', '/no/such/program']))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == respawn.EXIT_NOT_FOUND
    assert "'/no/such/program' cannot be started" in done.stderr
    for arguments in ([], ["web"], ["web", "--"], ["web", "sleep", "1"]):
        assert respawn.main(arguments) == respawn.EXIT_USAGE
        assert "usage:" in capsys.readouterr().err
