"""What is left of what was erased: questions that an agent asked itself, Valkey's file, backups, hashes of
names.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from engine.erasure import folded, hash_of, is_hash_of, mark_of
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.db.valkey import valkey
from models.erasure import cache_invalidation, progress, traces
from models.operations import backups
from models.queue import pending_work
from tests.integration.conftest import Browser
from tests.integration.erasure.test_erasure import alone, ask, carry_on, erase, report_of, state_of
from tests.integration.memory.test_inbox import observed, rows, save
from workers.ephemeral import environment

__all__ = ["alone"]

pytestmark = pytest.mark.usefixtures("database", "alone", "nothing_owed")

QUESTION = "What is known about Mia Pavlova?"


def reflected(group: str, state: str, ended: datetime | None = None) -> UUID:
    reflection_id = uuid4()
    with unit_of_work() as connection:
        connection.execute(
            text("""
                INSERT INTO reflections (reflection_id, group_id, agent_id, trigger, state, attempts,
                focal_points, started_at, finished_at)
                VALUES (:id, :g, 'klaus', 'conversation', :state, 1, CAST(:focal AS jsonb), now(), :ended)
            """),
            {
                "id": reflection_id,
                "g": group,
                "state": state,
                "focal": json.dumps([QUESTION]),
                "ended": ended,
            },
        )
    return reflection_id


def test_what_an_agent_asked_itself_about_erased_memories_goes_with_them(group: str) -> None:
    """Report F001: after four memories by their ids were erased, the agent's reflection still asked who Mia
    Pavlova is.
    """
    save(observed(group, "Ben reads"))
    long_ago = reflected(group, "done", datetime.now(UTC) - timedelta(days=1))
    mia = observed(group, "Mia Pavlova plays tennis")
    save(mia, observed(group, "Ben prefers Python"))
    now = datetime.now(UTC) + timedelta(minutes=1)
    done, nothing, running = (
        reflected(group, "done", now),
        reflected(group, "nothing", now),
        reflected(group, "running"),
    )
    from_it = {"reflection": str(done), "llm": "rules"}
    provenance = {**from_it, "focal_point": QUESTION}
    kept = observed(group, "Ben is a programmer", node_type="thought", provenance=provenance)
    save(kept)
    report = erase(group, node_ids=[mia.event_id])
    found = rows("SELECT * FROM reflections WHERE group_id = :g", g=group)
    asked = {row["reflection_id"]: row["focal_points"] for row in found}
    # What was asked before it was known stays.
    assert asked == {long_ago: [QUESTION], done: [], nothing: [], running: []}
    [attempts] = [row["attempts"] for row in found if row["reflection_id"] == running]
    assert attempts == 2, "what was under way writes nothing, and begins again"
    assert report["scrubbed"]["reflections"] == 3
    (thought,) = rows("SELECT provenance FROM memory_nodes WHERE node_id = :id", id=kept.event_id)
    assert thought["provenance"] == from_it
    (event,) = rows("SELECT payload FROM events WHERE event_id = :id", id=kept.event_id)
    assert "focal_point" not in json.dumps(event["payload"])


def test_valkeys_file_is_rewritten_and_the_report_says_so(group: str) -> None:
    """Report: 43 tokens of an erased person stood in ``appendonlydir/*.incr.aof``."""
    folder = Path(str(valkey().config_get("dir")["dir"])) / str(
        valkey().config_get("appenddirname")["appenddirname"]
    )
    word = f"Quillfeather{uuid4().hex[:8]}"
    save(observed(group, f"{word} sings"))
    valkey().set("jiyi:reply:test", word)

    def held() -> bool:
        return any(word.encode() in path.read_bytes() for path in folder.iterdir())

    assert held()
    report = erase(group, person=word)
    assert report["append_only_files"] == {"valkey": "rewritten"}
    assert not held()


def test_a_server_that_does_not_allow_it_is_named_in_the_report(group: str) -> None:
    save(observed(group, "Maria Lopez sings"))
    valkey().execute_command("ACL", "SETUSER", "default", "-bgrewriteaof")
    try:
        how = erase(group, person="Maria Lopez")["append_only_files"]["valkey"]
    finally:
        valkey().execute_command("ACL", "SETUSER", "default", "+bgrewriteaof")
    assert "does not allow it" in how
    assert "bgrewriteaof" in how


def test_a_rewriting_that_takes_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    idle, begun = [False, True, False, True], list[str]()
    monkeypatch.setattr(cache_invalidation, "_is_idle", lambda *_: idle.pop(0))
    assert cache_invalidation.rewrite(begun, 0.0) is None, "another one goes on"
    assert begun == []
    assert cache_invalidation.rewrite(begun, 0.0) is None, "begun, and not done"
    assert begun == ["valkey"]
    assert cache_invalidation.rewrite(begun, 0.0) == {"valkey": "rewritten"}


def test_a_backup_in_place_of_those_of_before_does_not_hold_the_name(group: str) -> None:
    """Report: the new backup's row of ``erasures`` had the person's name and aliases in clear."""
    save(observed(group, "Marlena Quist sings"))
    early = backups.make().path.name
    report = erase(group, person="Marlena Quist", aliases=["marlena"], delete_backups=True)
    assert report["backups"] == {"deleted": 1}
    (made,) = backups.existing()
    dump = subprocess.run(
        [backups.program("pg_restore"), "--file=-", made],
        capture_output=True,
        text=True,
        check=True,
        errors="replace",
    ).stdout
    assert group in dump
    assert "marlena" not in dump.casefold()
    later = backups.make().path
    with unit_of_work() as connection:  # as it is in that backup, which is restored
        place = {"report": report, "delete_backups": True, "before": [early]}
        values = {"place": json.dumps(place), "g": group}
        connection.execute(
            text(
                "UPDATE erasures SET state = 'running', step = 'finish', place = :place WHERE group_id = :g"
            ),
            values,
        )
        pending_work.enqueue(connection, progress.ERASE, [(UUID(report["erasure_id"]), group)])
    carry_on()
    assert {made, later} < set(backups.existing()), "no backup of later goes"
    assert report["backups_left"]["holding_it"] == 0


def test_a_copy_in_the_folder_under_another_name_counts_and_the_page_says_what_is_known(
    group: str, signed_in: Browser
) -> None:
    """Report M1: "Backups: none holds it" a minute after ``jiyi backup FILE``."""
    save(observed(group, "Maria Lopez sings"))
    copy = backups.make(backups.folder() / "mine.dump").path
    report = erase(group, person="Maria Lopez")
    left = {"folder": str(backups.folder()), "holding_it": 1, "gone_after_hours": None}
    assert report["backups_left"] == left
    for language, words in (("en", "copies elsewhere are not known"), ("zh", "别处的副本无从得知")):
        address = f"/erasure/{report['erasure_id']}?group={group}"
        page = signed_in.get(address, headers={"Accept-Language": language}).text
        assert words in page
        assert str(backups.folder()) in page
    copy.unlink()
    assert traces.backups_left(())["holding_it"] == 0


def test_names_are_kept_as_hashes_that_nobody_can_guess(group: str) -> None:
    """Report: names in reports and ``erasures.jsonl`` were plain SHA-256, so whoever guessed a name could
    confirm it.
    """
    save(observed(group, "Marlena Quist sings"))
    report = erase(group, person="Marlena Quist")
    plain = hashlib.sha256(folded("Marlena Quist").encode()).hexdigest()
    (kept,) = report["names"]
    assert kept == hash_of("marlena quist", progress.name_key())
    everything = (
        json.dumps([report, rows("SELECT details FROM audit_log WHERE group_id = :g", g=group)])
        + progress.path().read_text()
    )
    assert kept in everything
    assert plain not in everything
    assert is_hash_of(kept, "ＭＡＲＬＥＮＡ Quist", progress.name_key())
    assert not is_hash_of(kept, "Marlena Quist", b"another secret")
    assert is_hash_of(plain, "Marlena Quist", b"whatever"), "as an earlier version kept them"


def test_an_agent_whose_name_was_hashed_with_another_secret_is_told_not_silently_left(group: str) -> None:
    save(observed(group, "mine", agent_id="gone"))
    before = datetime.now(UTC)
    erase(group, agent_id="gone")
    with environment(secret_key="x" * 40), unit_of_work() as connection, whole_service():
        assert mark_of(progress.name_key()) not in progress.path().read_text()
        assert progress.apply_again(connection, before) == {"agents": 0, "others": 1}


def test_an_erasure_begun_under_other_steps_begins_again(group: str) -> None:
    save(observed(group, "Maria Lopez sings"))
    erasure_id = ask(group, person="Maria Lopez")
    with unit_of_work() as connection:
        connection.execute(
            text("UPDATE erasures SET step = 'backups', state = 'running' WHERE erasure_id = :id"),
            {"id": erasure_id},
        )
    carry_on()
    assert report_of(group, erasure_id)["erased"]["memory_nodes"] == 1


def test_names_are_gone_before_anything_is_made_that_could_keep_them(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(observed(group, "Maria Lopez sings"))
    erasure_id = ask(group, person="Maria Lopez", delete_backups=True)
    seen = []
    sql = "SELECT what, place FROM erasures WHERE erasure_id = :id"
    monkeypatch.setattr(backups, "make", lambda **_: seen.append(rows(sql, id=erasure_id)))
    carry_on()
    assert state_of(group, erasure_id).state == "done"
    assert "maria" not in json.dumps(seen).casefold()
    assert len(seen) == 1
