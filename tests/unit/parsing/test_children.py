"""Documents are parsed in child processes, each within its limits, which end with their parent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryFile
from typing import Any

import psutil
import pytest

from engine.stores import children
from engine.stores.children import MAX_CHILDREN, parse
from engine.stores.limits import MIB, LimitExceeded, ParseLimits, RefusedDocument
from jiyi.polling import poll

LIMITS = ParseLimits()
#: An ordinary document.
KILN = b"The kiln reached 1,240 degrees on Monday."
LARGE = b"[" + b"{}," * 2_000_000 + b"{}]"
#: Comments hide from a count of open elements what the parser meets: seconds of the processor.
HIDDEN_DEPTH = b"<div><!--</div>-->" * 60_000


@pytest.fixture(autouse=True, scope="module")
def _ended() -> Iterator[None]:
    yield
    children.pool.end()


@pytest.fixture
def _new_children() -> None:
    children.pool.end()


def document(data: bytes, name: str = "a.md", limits: ParseLimits = LIMITS) -> list[Any]:
    return list(parse("document", data, limits, path=name, encoding="utf-8", size=500, overlap=50))


class StillAlive:
    """A process that seems to live until it is waited for."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)


def pids() -> list[int]:
    return [one.process.pid for one in children.pool.idle]


def test_one_child_parses_one_document_after_the_other() -> None:
    first = document(KILN)
    assert [said for said, _ in first[1:]] == [KILN.decode()]
    before = pids()
    assert document(KILN) == first
    assert pids() == before


def test_a_document_may_be_a_file_of_any_size() -> None:
    item = {"id": "x" * 2_000_000, "content_summary": "x", "timestamp": 1.0}
    with TemporaryFile() as file:
        file.write(json.dumps([item] * 3).encode())
        file.flush()
        assert [part["id"] for part in parse("items", file, LIMITS)] == [item["id"]] * 3


@pytest.mark.parametrize(
    ("data", "name", "limits", "reason"),
    [
        (HIDDEN_DEPTH, "a.html", ParseLimits(cpu_seconds=1), "s of the processor"),
        (HIDDEN_DEPTH, "a.html", ParseLimits(wall_seconds=1.0), "takes more than 1 s"),
        (LARGE, "a.json", ParseLimits(memory_bytes=150 * MIB), "150 MB of memory"),
        (b"a\n" * 700_000, "a.txt", ParseLimits(output_bytes=MIB), "unfolds to more than 1 MB"),
    ],
    ids=["cpu", "wall", "memory", "output"],
)
def test_a_document_that_exceeds_a_limit_is_refused_and_the_next_is_parsed(
    data: bytes, name: str, limits: ParseLimits, reason: str
) -> None:
    with pytest.raises(LimitExceeded, match=reason):
        document(data, name, limits)
    assert document(KILN)[1][0] == KILN.decode()


def test_a_child_that_is_killed_harms_nobody() -> None:
    document(KILN)
    os.kill(pids()[0], signal.SIGKILL)
    assert document(KILN)


@pytest.mark.usefixtures("_new_children")
def test_a_child_that_has_had_nothing_to_do_ends_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    for seen in (True, False):  # before it was taken, or it ended just when it was taken
        document(KILN)
        idle = children.pool.idle[0]
        idle.connection.shutdown(socket.SHUT_WR)
        assert idle.process.wait(30) == 0
        with monkeypatch.context() as patch:
            if not seen:
                patch.setattr(idle, "process", StillAlive(idle.process))
            assert document(KILN)[1][0] == KILN.decode()
            assert idle.process.pid not in pids()


@pytest.mark.usefixtures("_new_children")
def test_an_interrupted_reader_leaves_no_child_half_way() -> None:
    parts = parse("document", b"word " * 40_000, LIMITS, path="a.md", encoding="utf-8", size=20, overlap=0)
    next(parts)
    parts.close()  # type: ignore[attr-defined]
    assert pids() == []
    assert document(KILN)


def test_threads_share_a_bounded_number() -> None:
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda number: document(f"Kiln {number}".encode())[1][0], range(36)))
    assert found == [f"Kiln {number}" for number in range(36)]
    assert 0 < len(pids()) <= MAX_CHILDREN


def test_a_fork_has_children_of_its_own() -> None:
    document(KILN)
    before = pids()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            status = 0 if not pids() and document(KILN) and not set(pids()) & set(before) else 2
            children.pool.end()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert document(KILN)
    assert pids() == before


@pytest.mark.parametrize("busy", [False, True])
def test_children_end_with_their_parent(busy: bool) -> None:
    """Also where the parent is killed while a child is in the middle of code that never looks at a pipe."""
    program = textwrap.dedent(f"""
        import sys
        from engine.stores import children
        from engine.stores.limits import ParseLimits
        options = {{"encoding": "utf-8", "size": 500, "overlap": 50}}
        list(children.parse("document", b"kiln", ParseLimits(), path="a.md", **options))
        print(children.pool.idle[0].process.pid, flush=True)
        if {busy}:
            busy = {HIDDEN_DEPTH[:18]!r} * 60_000
            list(children.parse("document", busy, ParseLimits(), path="a.html", **options))
        sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        if busy:
            used = child.cpu_times().user
            assert poll(lambda: child.cpu_times().user > used + 0.2, bool, 60)
        parent.kill()
    assert not psutil.wait_procs([child], timeout=10)[1]


@pytest.mark.usefixtures("_new_children")
def test_a_child_has_no_secrets_and_no_files_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIYI_SECRET_KEY", "swordfish")
    document(KILN)
    child = psutil.Process(pids()[0])
    assert "swordfish" not in str(child.environ())
    assert child.net_connections() == []
    assert child.open_files() == []


def test_what_a_parser_will_not_have_is_told() -> None:
    with pytest.raises(RefusedDocument, match="malformed: it is no JSON"):
        document(b"{", "a.json")
    with pytest.raises(RefusedDocument, match="undecodable: encoding: 'punycode'"):
        list(parse("document", b"x", LIMITS, path="a.txt", encoding="punycode", size=500, overlap=50))
