"""Two processes and one store: nothing is lost, and both find all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.stores.kept import SIMPLE, Kept, embed

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

CHECKOUT = Path(__file__).resolve().parents[3]
#: Of each of the two.
UPDATES = 60
WRITE = """
import sys
from tests.integration.stores.kept import Kept
kept, whose = Kept(sys.argv[1]), sys.argv[2]
for number in range(int(sys.argv[3])):
    assert kept.say(f"Process {whose} writes its note number {number}.").item_id is not None
"""


@pytest.mark.long
def test_two_processes_write_many_items_and_lose_none(group: str) -> None:
    kept = Kept(group)
    kept.apply({**SIMPLE, "config": {"memory_path": "notes.json", "max_items": 10_000}})
    command = [sys.executable, "-c", WRITE, group]
    running = [subprocess.Popen([*command, whose, str(UPDATES)], cwd=CHECKOUT) for whose in ("one", "two")]
    found_meanwhile = kept.found("note number 3 of process one")
    assert [one.wait(200) for one in running] == [0, 0]
    assert kept.state().items == 2 * UPDATES
    assert embed() == 2 * UPDATES
    assert len(found_meanwhile) <= 3
    assert kept.state().pending == 0
    assert (
        kept.ask("Process two writes its note number 59.", top_k=1)
        .hits[0]
        .item.content_summary.endswith("two writes its note number 59.")
    )


@pytest.mark.long
def test_a_writer_that_is_killed_leaves_whole_items(group: str) -> None:
    kept = Kept(group)
    kept.apply({**SIMPLE, "config": {"memory_path": "notes.json", "max_items": 10_000}})
    writer = subprocess.Popen([sys.executable, "-c", WRITE, group, "one", "100000"], cwd=CHECKOUT)
    while kept.state().items < 5:
        assert writer.poll() is None
    writer.kill()
    writer.wait(120)
    count = kept.state().items
    assert embed() == count
    assert (kept.state().items, kept.state().pending) == (count, 0)
    assert kept.say("The other process goes on with this note.").item_id
