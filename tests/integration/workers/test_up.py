"""``python -m workers.up`` as people start it: in a process of its own, from an empty home, ended by Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from jiyi.polling import poll
from tests.integration.waiting import until
from tests.integration.workers.test_server_watch import SERVERS, replaced, server
from workers.demo import AGENTS, QUESTIONS

pytestmark = pytest.mark.timeout(600)

CHECKOUT = Path(__file__).resolve().parents[3]
READY_SECONDS = 240.0
END_SECONDS = 60.0
READY = "Ctrl-C ends it."


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short name, in which nothing may run in the end."""
    with tempfile.TemporaryDirectory(prefix="up", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)  # under root PostgreSQL has a user of its own
        yield folder
        left = mentioning(folder)
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=END_SECONDS)
        assert not left, f"left running: {left}"


@pytest.fixture
def start(place: Path) -> Iterator[Callable[..., Up]]:
    """Starts a copy whose home is below ``place``."""
    started: list[Up] = []

    def start_one(*arguments: str, **variables: str | Path) -> Up:
        up = Up(place, len(started), arguments, variables)
        started.append(up)
        return up

    yield start_one
    for up in started:
        up.end()


class Up:
    """A running ``python -m workers.up``; its output goes to a file."""

    def __init__(self, place: Path, number: int, arguments: tuple[str, ...], variables: dict[str, str | Path]) -> None:
        foreign = ("JIYI_", "XDG_", "PG")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        environment |= {"HOME": str(place), "JIYI_EMBEDDER": "hashing", "COLUMNS": "100"}
        environment |= {name: str(value) for name, value in variables.items()}
        self._output = place / f"output-{number}"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers.up", *arguments],
                cwd=CHECKOUT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")  # the last character may be half written

    @property
    def lines(self) -> list[str]:
        return [line for line in self.output.splitlines() if line.strip()]

    @property
    def admin(self) -> str:
        found = re.search(r"Admin\s+(http://127\.0\.0\.1:\d+/)", self.output)
        assert found, self.output
        return found[1]

    def finished(self) -> int:
        """The exit code, once it has ended by itself."""
        return self.process.wait(READY_SECONDS)

    def ready(self) -> None:
        until(lambda: READY in self.output or self.process.poll() is not None, READY_SECONDS)
        assert self.process.poll() is None, self.output

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(END_SECONDS)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def mentioning(folder: Path) -> list[psutil.Process]:
    """Every living process whose folder, command or environment lies in ``folder``."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            known = [process.cwd(), *process.cmdline(), *process.environ().values()]
            living = process.status() != psutil.STATUS_ZOMBIE
            if living and any(str(folder) in text for text in known):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def answers(url: str, path: str = "healthz") -> bool:
    try:
        with urllib.request.urlopen(f"{url}{path}", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def test_the_demo_answers_three_questions_and_so_it_does_in_the_same_home_again(start: Callable[..., Up], place: Path) -> None:
    """And after it its group has something in every tier, and no page is empty."""
    once = start("--demo", "--once", JIYI_HOME=place / "h")
    assert once.finished() == 0, once.output
    assert not mentioning(place)
    up = start("--demo", JIYI_HOME=place / "h")
    up.ready()
    thoughts: list[str] = []
    assert len(QUESTIONS) == 3
    for run in (once, up):
        for shown in (
            *(question for _, question in QUESTIONS),
            *(f"{agent} reflects" for agent in AGENTS),
            "jiyi users passwd admin",
            str(place / "h"),
            "a debate in three tiers",
            "quarantine 3, working memory 5, long-term memory 1",
        ):
            assert shown in run.output
        thoughts.append(run.output.partition(f"{AGENTS[0]} reflects")[2].partition("Admin")[0])
        for shown in ("母亲的血压：162 → 138 → 134", "thought · importance", "event · 2026-0"):
            assert shown in thoughts[-1]
        assert "Traceback" not in run.output
    assert thoughts[0] == thoughts[1]  # they are remembered, not thought again
    (password,) = re.findall(PASSWORD, once.output, re.MULTILINE)  # shown once
    assert not re.findall(PASSWORD, up.output, re.MULTILINE)
    secret = place / "h" / "secret_key"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert secret.read_text() not in once.output
    browser = signed_in(up, password)

    def page(path: str) -> str:
        with browser.open(f"{up.admin.rstrip('/')}{path}{'&' if '?' in path else '?'}group=demo", timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    until(lambda: json.loads(page("/digests.json"))["digests"], END_SECONDS)
    until(lambda: json.loads(page("/growth.json"))["rows"], END_SECONDS)
    until(lambda: json.loads(page("/retrievals.json"))["rows"], END_SECONDS)
    tiers = json.loads(page("/tiers.json"))
    assert (tiers["in_working"], tiers["counts"]["entries"]) == (5, 8)
    assert tiers["counts"]["knowledge"] == tiers["counts"]["verdicts"] == 1
    assert {"accepted", "low_confidence", "too_short", "claim_pending"} <= tiers["screened"].keys()
    paths = {urllib.parse.urlsplit(found).path for found in re.findall(r'<a href="(/[^"]*)"', page("/").partition("<main")[0])}
    assert {"/tiers", "/quarantine", "/working", "/knowledge", "/digests", "/events", "/memories"} <= paths
    may_be_empty = WITHOUT_A_ROW.keys() | {"/", "/tiers"}

    def empty() -> set[str]:
        return {path for path in paths if re.search(r'<p class="empty"(?![^>]*hidden)', page(path).partition("<main")[2])}

    poll(empty, lambda found: found <= may_be_empty, END_SECONDS, str)  # some of it is made by workers, in their time
    assert "appears here" not in page("/tiers")  # working memory's part of it; that nothing waits for the filters is well


PASSWORD = r"name: admin +password: (\S{20})$"
#: Pages that are empty for a reason, though the demonstration was played.
WITHOUT_A_ROW = {
    "/dead": "nothing went wrong",
    "/work": "everything is done",
    "/playground": "nothing was asked yet",
    "/ask": "nothing was asked yet",
    "/promotion": "nothing is chosen yet",
    "/erasure": "nobody is to be erased",
    "/archive": "nothing was forgotten",
    "/keys": "no program has asked for one",
    "/llm-use": "the rules ask no LLM",
    "/growth/heartbeats": "no alert waits",
}


def signed_in(up: Up, password: str) -> urllib.request.OpenerDirector:
    """A browser of the person that a new home has."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(f"{up.admin}sign-in", timeout=30) as answer:
        token = re.search(r'name="csrf_token" value="([^"]+)"', answer.read().decode())
    assert token
    form = urllib.parse.urlencode({"csrf_token": token[1], "name": "admin", "password": password, "next": "/"})
    with browser.open(f"{up.admin}sign-in", form.encode(), timeout=30) as answer:
        assert answer.status == 200
        assert "sign-in" not in answer.url
    return browser


def test_two_at_once_take_two_homes_and_ports_survive_the_death_of_their_servers_and_end_by_ctrl_c(
    start: Callable[..., Up], place: Path
) -> None:
    both = [start(), start()]
    for up in both:
        up.ready()
    homes = {re.search(r"Data\s+(\S+)", up.output)[1]: up for up in both}  # type: ignore[index]
    data = place / ".local" / "share"
    assert homes.keys() == {str(data / "jiyi"), str(data / "jiyi-2")}
    assert sum("trying the next one" in up.output for up in both) == 1
    assert both[0].admin != both[1].admin
    first = homes[str(data / "jiyi")]
    second = start("--once", JIYI_HOME=data / "jiyi")  # refused in one line
    assert second.finished() == 1
    (line,) = second.lines
    assert line.startswith(f"jiyi up: {data / 'jiyi'} is in use")
    for told in (str(first.process.pid), first.admin, "JIYI_HOME"):
        assert told in line
    for up in both:  # the others go on
        until(lambda up=up: answers(up.admin), END_SECONDS)  # type: ignore[misc]
    for name in SERVERS:
        victim = server(data / "jiyi", name)
        os.kill(victim.pid, signal.SIGKILL)
        until(lambda name=name, victim=victim: replaced(data / "jiyi", name, victim) and answers(first.admin, "readyz"), READY_SECONDS)  # type: ignore[misc]
    assert first.output.count("starting it again") == len(SERVERS)
    running = mentioning(place)
    assert len(running) > 20
    assert {"postgres", "valkey-server"} <= {process.name() for process in running}
    for up in both:
        assert up.interrupt() == 130
        assert "Traceback" not in up.output
    assert not mentioning(place)
    assert not (data / "jiyi" / "run" / "jiyi.env").exists()


def test_a_port_that_was_asked_for_and_is_taken_is_named_in_one_line(start: Callable[..., Up], place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        up = start("--once", JIYI_HOME=place / "h", JIYI_WEB_PORT=str(port))
        assert up.finished() == 1
    (line,) = up.lines
    assert line.startswith("jiyi up: JIYI_WEB_PORT")
    assert str(port) in line
    assert not mentioning(place)


def test_ctrl_c_while_it_is_starting_ends_every_process(start: Callable[..., Up], place: Path) -> None:
    up = start(JIYI_HOME=place / "h")
    until((place / "h" / "run" / "processes.json").exists, READY_SECONDS)
    assert up.interrupt() == 130
    assert not mentioning(place)
    assert "Traceback" not in up.output


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"JIYI_DATABASE_URL": "postgresql+psycopg://elsewhere/jiyi"}, "jiyi up: JIYI_DATABASE_URL is set"),
        ({"JIYI_EMBED_BATCH": "0"}, "JIYI_EMBED_BATCH"),
    ],
)
def test_an_address_of_ones_own_or_a_wrong_setting_is_refused_in_one_line_before_anything_is_started(
    start: Callable[..., Up], place: Path, setting: dict[str, str], told: str
) -> None:
    up = start("--once", JIYI_HOME=place / "h", **setting)
    assert up.finished() == 1
    (line,) = up.lines
    assert told in line
    assert not (place / "h").exists()
