"""``python -m workers.up`` in a process of its own, from an empty home, ended by Ctrl-C."""

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
from tests.integration.workers.test_stack import processes_in
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

    def __init__(
        self, place: Path, number: int, arguments: tuple[str, ...], variables: dict[str, str | Path]
    ) -> None:
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
        # the last character may be half written
        return self._output.read_text(encoding="utf-8", errors="replace")

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


@pytest.mark.long
def test_the_demo_answers_three_questions_and_so_it_does_again_beside_a_second_copy_and_survives_the_death_of_its_servers(
    start: Callable[..., Up], place: Path
) -> None:
    """A second copy takes a home and a port of its own, or is refused a taken home; Ctrl-C ends all."""
    data = place / ".local" / "share"
    home = data / "jiyi"
    once = start("--demo", "--once")
    assert once.finished() == 0, once.output
    assert not mentioning(place)
    up = start("--demo", JIYI_KEY=f"jiyi_{'a' * 12}_{'b' * 43}")  # a program's, of elsewhere
    until(lambda: processes_in(home), READY_SECONDS)
    other = start()
    until(lambda: port_of(home) and port_of(data / "jiyi-2"), READY_SECONDS)
    assert f"{home} is in use by another copy; trying the next one" in other.output
    assert port_of(data / "jiyi-2") != port_of(home)
    assert other.interrupt() == 130  # while it is still starting
    assert "Traceback" not in other.output
    up.ready()
    assert not processes_in(data / "jiyi-2")
    assert re.findall(r"Data\s+(\S+)", up.output) == [str(home)]
    (password,) = re.findall(PASSWORD, once.output, re.MULTILINE)  # shown once
    assert not re.findall(PASSWORD, up.output, re.MULTILINE)
    secret = home / "secret_key"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert secret.read_text() not in once.output
    answers_and_thoughts(once, up, home)
    no_page_is_empty(up, password)

    third = start("--once", JIYI_HOME=home)
    assert third.finished() == 1
    (line,) = third.lines
    assert line.startswith(f"jiyi up: {home} is in use")
    for told in (str(up.process.pid), up.admin, "JIYI_HOME"):
        assert told in line
    until(lambda: answers(up.admin), END_SECONDS)  # the other goes on
    for name in SERVERS:
        victim = server(home, name)
        os.kill(victim.pid, signal.SIGKILL)
        until(
            lambda name=name, victim=victim: replaced(home, name, victim) and answers(up.admin, "readyz"),
            READY_SECONDS,
        )  # type: ignore[misc]
    assert up.output.count("starting it again") == len(SERVERS)
    running = mentioning(place)
    assert len(running) > 10
    assert {"postgres", "valkey-server"} <= {process.name() for process in running}
    assert up.interrupt() == 130
    assert "Traceback" not in up.output
    assert not mentioning(place)
    assert not (home / "run" / "jiyi.env").exists()


def port_of(home: Path) -> str | None:
    """Where the web of a running copy is, or will be."""
    note = home / "run" / "jiyi.env"
    found = re.search(r"JIYI_WEB_PORT='(\d+)'", note.read_text()) if note.exists() else None
    return found[1] if found else None


def answers_and_thoughts(once: Up, again: Up, home: Path) -> None:
    """Both show the three answers, and the same thoughts."""
    thoughts: list[str] = []
    assert len(QUESTIONS) == 3
    asked = [*(question for _, question in QUESTIONS), *(f"{agent} reflects" for agent in AGENTS)]
    tiers = ["a debate in three tiers", "quarantine 3, working memory 5, long-term memory 1"]
    for run in (once, again):
        shown = (*asked, *tiers, "jiyi people set_password admin", str(home))
        assert [text for text in shown if text not in run.output] == []
        thoughts.append(run.output.partition(f"{AGENTS[0]} reflects")[2].partition("Admin")[0])
        for text in ("母亲的血压：162 → 138 → 134", "thought · importance", "event · 2026-0"):
            assert text in thoughts[-1]
        assert "Traceback" not in run.output
    assert thoughts[0] == thoughts[1]  # they are remembered, not thought again


def linked(html: str) -> set[str]:
    return {urllib.parse.urlsplit(found).path for found in re.findall(r'<a href="(/[^"]*)"', html)}


def no_page_is_empty(up: Up, password: str) -> None:
    """After the demonstration its group has something in every tier, and on every page."""
    browser = signed_in(up, password)

    def page(path: str) -> str:
        with browser.open(
            f"{up.admin.rstrip('/')}{path}{'&' if '?' in path else '?'}group=demo", timeout=30
        ) as answer:
            text: str = answer.read().decode()
        return text

    until(lambda: json.loads(page("/digests.json"))["digests"], END_SECONDS)
    until(lambda: json.loads(page("/proposals.json"))["rows"], END_SECONDS)
    until(lambda: json.loads(page("/traces.json"))["traces"], END_SECONDS)
    tiers = json.loads(page("/tiers.json"))
    assert (tiers["in_working"], tiers["counts"]["entries"]) == (5, 8)
    assert tiers["counts"]["knowledge"] == tiers["counts"]["verdicts"] == 1
    assert {"accepted", "low_confidence", "too_short", "claim_pending"} <= tiers["screened"].keys()
    menu = linked(page("/").partition("<main")[0])
    paths = menu.union(
        *(
            linked(tabs)
            for entry in menu
            for tabs in re.findall(r'<nav class="tabs.*?</nav>', page(entry), re.DOTALL)
        )
    )
    assert {"/tiers", "/quarantine", "/working", "/knowledge", "/digests", "/events", "/memories"} <= paths
    may_be_empty = WITHOUT_A_ROW.keys() | {"/", "/tiers"}

    def empty() -> set[str]:
        return {
            path
            for path in paths
            if re.search(r'<p class="empty"(?![^>]*hidden)', page(path).partition("<main")[2])
        }

    # some of it is made by workers, in their time
    poll(empty, lambda found: found <= may_be_empty, END_SECONDS, str)
    # working memory's part of it; that nothing waits for the filters is well
    assert "appears here" not in page("/tiers")


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
    form = urllib.parse.urlencode(
        {"csrf_token": token[1], "name": "admin", "password": password, "next": "/"}
    )
    with browser.open(f"{up.admin}sign-in", form.encode(), timeout=30) as answer:
        assert answer.status == 200
        assert "sign-in" not in answer.url
    return browser


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"JIYI_DATABASE_URL": "postgresql+psycopg://elsewhere/jiyi"}, "jiyi up: JIYI_DATABASE_URL is set"),
        ({"JIYI_EMBED_BATCH": "0"}, "JIYI_EMBED_BATCH"),
        ({"JIYI_WEB_PORT": ""}, "jiyi up: JIYI_WEB_PORT"),
    ],
    ids=["an address of one's own", "a wrong setting", "a port that is taken"],
)
def test_what_cannot_be_is_refused_in_one_line_before_anything_is_started(
    start: Callable[..., Up], place: Path, setting: dict[str, str], told: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        up = start(
            "--once", JIYI_HOME=place / "h", **{name: value or port for name, value in setting.items()}
        )
        assert up.finished() == 1
    (line,) = up.lines
    assert told in line
    if "JIYI_WEB_PORT" in setting:
        assert port in line
    else:
        assert not (place / "h").exists()
    assert not mentioning(place)
