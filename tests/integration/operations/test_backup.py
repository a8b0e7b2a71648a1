"""Backups are whole, private and never overwrite; restored, every table has the same content."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec
from uuid import uuid4

import psycopg
import pytest

from models.operations import backups
from models.operations.backups import BackupError
from tasks.framework.jobs import Run
from tasks.operations import maintenance as backup_jobs
from tests.integration.memory.test_inbox import observed, save
from workers import backup as command
from workers.embedded.stack import Stack
from workers.ephemeral import environment, forget
from workers.migrate import CHECKOUT, upgrade

COMMAND_SECONDS = 240


pytestmark = pytest.mark.xdist_group("backup")  # one migrated database for all of them


@pytest.fixture(scope="module")
def migrated(database: Stack) -> Iterator[str]:
    """The name of a migrated database to be copied."""
    server, name = database.urls.database_url, f"template_{uuid4().hex[:12]}"
    _execute(server, f"CREATE DATABASE {name}")
    with environment(database_url=server.replace("/jiyi?", f"/{name}?")):
        upgrade()
    yield name
    _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def url(database: Stack, migrated: str) -> Iterator[str]:
    """A migrated database of the test's own, to which the settings point."""
    with _made(database, f"TEMPLATE {migrated}") as own, environment(database_url=own):
        yield own


@pytest.fixture
def empty(database: Stack) -> Iterator[str]:
    """A database without anything in it."""
    with _made(database) as own:
        yield own


@contextmanager
def _made(database: Stack, template: str = "") -> Iterator[str]:
    server, name = database.urls.database_url, f"backup_{uuid4().hex[:12]}"
    _execute(server, f"CREATE DATABASE {name} {template}")
    yield server.replace("/jiyi?", f"/{name}?")
    _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(autouse=True)
def _own_folder(database: Stack, tmp_path: Path) -> Iterator[None]:
    with environment(backup_dir=str(tmp_path / "backups")):
        yield


def _execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def digests(url: str) -> dict[str, tuple[int, str]]:
    """Rows and a digest of their content, of each table."""
    tables = [
        name for (name,) in _execute(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    ]
    found = {}
    for table in tables:
        content = [row for (row,) in _execute(url, f"SELECT t::text FROM {table} t ORDER BY 1")]
        found[table] = (len(content), hashlib.sha256("\n".join(content).encode()).hexdigest())
    return found


def structure(url: str) -> list[tuple[Any, ...]]:
    return (
        _execute(url, "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1")
        + _execute(
            url,
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
        )
        + _execute(url, _SECURITY)
    )


#: Policies, functions with who may call them, and what the service's role may do.
_SECURITY = """
    SELECT 'policy', tablename, policyname, qual || with_check FROM pg_policies
    UNION ALL SELECT 'table', relname, relrowsecurity::text, (
        SELECT string_agg(a.privilege_type, ' ' ORDER BY a.privilege_type)
        FROM aclexplode(relacl) a JOIN pg_roles r ON r.oid = a.grantee WHERE r.rolname = 'jiyi_service'
    ) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    UNION ALL SELECT 'function', proname, prosrc, (
        SELECT string_agg(coalesce(r.rolname, 'everybody'), ' ' ORDER BY r.rolname)
        FROM aclexplode(proacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    ) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND starts_with(proname, 'jiyi_')
    ORDER BY 1, 2, 3
"""


def fill() -> None:
    vectors = {"vector": [0.25, -1.5, 3e-7], "embedding_model": "mine"}
    save(
        observed("demo", "Klaus reads 书", keywords=["Klaus", "书"], poignancy=4, **vectors),
        observed("demo", "克劳斯喝茶 'quoted' \\ \n second line", agent_id="林岚"),
        observed("demo", "a chat", node_type="chat", utterances=[["Klaus", "hello"]]),
        observed("other", "a thought", node_type="thought"),
    )


def test_a_backup_restored_into_a_fresh_database_has_the_same_content(
    url: str, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its indexes are made anew in memory, and options of PostgreSQL's programs stay."""
    fill()
    _execute(url, "INSERT INTO job_ticks (job, slot, state) VALUES ('reconcile', now(), 'running')")
    before = digests(url)
    assert (before["memory_nodes"][0], before["events"][0]) == (4, 4)
    made = backups.make()
    monkeypatch.setenv("PGOPTIONS", "-c jit=off")
    run = create_autospec(backups.run, side_effect=backups.run)
    monkeypatch.setattr(backups, "run", run)
    with environment(database_url=empty):
        rows = backups.restore(made.path)
        assert digests(empty) == before
        assert structure(empty) == structure(url)
        assert rows == {table: count for table, (count, _) in before.items()}
        upgrade()  # finds nothing to do
        save(observed("demo", "new"))  # numbering goes on: sequences and counters came along
        assert _execute(
            empty, "SELECT vector_dims(embedding) FROM memory_nodes WHERE embedding IS NOT NULL"
        ) == [(3,)]
        forget()
    assert _execute(empty, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'jiyi%'") == []
    (options,) = {
        call.args[1]["PGOPTIONS"] for call in run.call_args_list if "--single-transaction" in call.args[0]
    }
    assert options.split("-c ")[1:] == [
        "jit=off ",
        "maintenance_work_mem=2048MB ",
        "max_parallel_maintenance_workers=0",
    ]


def test_a_backup_is_private_checked_and_the_last_few_are_kept_beside_other_files(url: str) -> None:
    folder = backups.folder()
    folder.mkdir(mode=0o700)
    names = [f"jiyi-2026010{day}T000000Z.dump" for day in range(1, 5)]
    for name in [*names, "jiyi.dump", "notes.txt", f"{names[0]}.sha256"]:
        (folder / name).write_text("x")
    made = backups.make(keep=3)
    assert {path.name for path in folder.iterdir()} == {
        made.path.name,
        f"{made.path.name}.sha256",
        *names[2:],
        "jiyi.dump",
        "notes.txt",
    }
    assert made.path.parent == folder
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    subprocess.run(
        ["sha256sum", "--check", f"{made.path.name}.sha256"], cwd=folder, check=True, capture_output=True
    )
    assert made.path in backups.existing()
    assert abs(backups.made_at(made.path) - datetime.now(UTC)) < timedelta(minutes=1)
    assert backups.verify(made.path) >= 10


def test_a_backup_overwrites_nothing_and_one_that_fails_leaves_nothing(url: str, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(BackupError, match="overwrites nothing"):
        backups.make(taken)
    assert taken.read_text() == "mine"
    with (
        environment(database_url=url.replace("/backup_", "/nowhere_")),
        pytest.raises(BackupError, match="cannot be reached"),
    ):
        backups.make()
    with pytest.raises(BackupError, match="pg_dump had not ended"):
        backups.make(seconds=0.001)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["taken"]


def test_a_password_is_not_on_the_command_line() -> None:
    with environment(database_url="postgresql+psycopg://jiyi:s%40cret@db.example:6543/jiyi?sslmode=require"):
        address, variables = backups.conninfo()
    assert "cret" not in address
    assert variables["PGPASSWORD"] == "s@cret"
    assert set(address.split()) == {
        "user=jiyi",
        "host=db.example",
        "port=6543",
        "dbname=jiyi",
        "sslmode=require",
    }


def test_programs_fit_the_server_or_are_missed_with_a_sentence() -> None:
    assert backups.program("pg_dump", 18).is_file()
    with pytest.raises(BackupError, match=r"pg_dump of version 99 or later is needed; found: .*18"):
        backups.program("pg_dump", 99)


def test_data_is_replaced_only_if_told_to_after_a_backup_of_it_and_whole_or_not_at_all(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill()
    made, before = backups.make(), digests(url)
    forget()
    save(observed("demo", "later"))
    forget()
    later = digests(url), structure(url)
    with pytest.raises(BackupError, match=r"the database has data \(.*5 events.*\), and nothing was changed"):
        backups.restore(made.path)
    original = backups.run

    def breaks_at_the_end(command: Any, *rest: Any) -> str:
        done = original(command, *rest)
        if "--single-transaction" in command:
            raise BackupError("the cable was pulled")
        return done

    made.path.rename(made.path.with_name("kept.dump"))  # its name has seconds only
    with monkeypatch.context() as patch, pytest.raises(BackupError, match="the cable was pulled"):
        patch.setattr(backups, "run", breaks_at_the_end)
        backups.restore(made.path.with_name("kept.dump"), force=True)
    assert (digests(url), structure(url)) == later
    for path in backups.folder().glob("jiyi-*"):  # the backup of what would have been replaced
        path.unlink()
    backups.restore(made.path.with_name("kept.dump"), force=True)
    assert digests(url) == before
    (safety,) = backups.existing()
    backups.restore(safety, force=True)
    assert (digests(url), structure(url)) == later


def test_nothing_is_restored_of_a_damaged_backup_or_while_somebody_is_connected(
    url: str, tmp_path: Path
) -> None:
    """Who is just ending is waited for."""
    made, file = backups.make(), tmp_path / "file"
    with psycopg.connect(url.replace("+psycopg", "")) as other:
        with pytest.raises(
            BackupError, match="1 programs are connected to the database: stop the service first"
        ):
            backups.restore(made.path)
        threading.Timer(0.2, other.close).start()
        backups.restore(made.path)
        assert other.closed
    damaged = bytearray(made.path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    for path, content, problem in (
        (file, b"hello", "not in PostgreSQL's custom format"),
        (file, b"PGDMP and nonsense", "pg_restore failed"),
        (made.path, bytes(damaged), "not what was written"),
    ):
        path.write_bytes(content)
        with pytest.raises(BackupError, match=problem):
            backups.restore(path, force=True)


def test_rows_of_a_server_that_was_further_ahead_are_no_news_for_ever(url: str, empty: str) -> None:
    fill()
    forget()
    _execute(url, "UPDATE memory_nodes SET changed_xid = '4611686018427387904'")
    made = backups.make()
    with environment(database_url=empty):
        backups.restore(made.path)
        forget()
    ahead = "SELECT count(*) FROM memory_nodes WHERE changed_xid > pg_current_xact_id()"
    assert _execute(empty, ahead) == [(0,)]
    places = "split_part(trim('()' FROM ctid::text), ',', 2)::int"
    # none was changed once it was indexed
    assert _execute(empty, f"SELECT count(*), max({places}) FROM memory_nodes") == [(4, 4)]


def test_a_backup_of_a_later_version_is_refused(url: str, empty: str) -> None:
    _execute(url, "UPDATE alembic_version SET version_num = '9999'")
    made = backups.make()
    assert backups.revision(made.path) == "9999"
    with (
        environment(database_url=empty),
        pytest.raises(BackupError, match=r"a later version of Jiyi \(revision 9999\)"),
    ):
        command.restore(made.path, force=False)
    assert digests(empty) == {}


# The jobs


def run_of(function: Any, **options: Any) -> dict[str, Any]:
    run = Run(function.__name__, datetime.now(UTC), **options)
    function(run)
    return run.summary


def test_a_service_with_something_to_lose_needs_a_young_backup_that_can_be_read(url: str) -> None:
    assert backups.existing() == []
    assert run_of(backup_jobs.verify_backup) == {"backup": None}  # nothing is stored
    fill()
    forget()
    assert run_of(backup_jobs.verify_backup) == {"backup": None}  # since a moment ago
    _execute(url, "UPDATE groups SET created_at = now() - interval '8 days'")
    with pytest.raises(BackupError, match=r"there is no backup in .*: make one with `jiyi backup`"):
        run_of(backup_jobs.verify_backup)
    made = Path(run_of(backup_jobs.back_up)["file"])
    found = run_of(backup_jobs.verify_backup)
    assert (found["backup"], found["age_days"] < 0.1) == (str(made), True)
    aged = made.with_name("jiyi-20260101T000000Z.dump")
    made.rename(aged)
    with pytest.raises(BackupError, match="days old, more than 7"):
        run_of(backup_jobs.verify_backup)
    aged.with_name("jiyi-20990101T000000Z.dump").write_bytes(b"PGDMP")
    with pytest.raises(BackupError, match="pg_restore failed"):
        run_of(backup_jobs.verify_backup)


# The commands


def jiyi(*arguments: object, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("JIYI_")}
    done = subprocess.run(
        [sys.executable, "-m", "jiyi", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=outside | {"PYTHONPATH": str(CHECKOUT)} | variables,
        timeout=COMMAND_SECONDS,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_the_commands_back_up_and_restore(url, empty, tmp_path, capsys):
    """What ``jiyi`` becomes; the next test starts it."""

    def told(address: str, *arguments: str, code: int = 0) -> Any:
        with environment(database_url=address, backup_dir=str(tmp_path / "b")):
            assert command.main([*arguments]) == code
        return capsys.readouterr()

    fill()
    forget()
    made = json.loads(told(url, "backup", "--json").out)
    assert Path(made["file"]).parent == tmp_path / "b"
    again = told(url, "backup", made["file"], "--json", code=1)
    assert json.loads(again.out)["error"]["code"] == "backup"
    assert "overwrites nothing" in again.err
    assert "restored from" in told(empty, "restore", made["file"]).out
    assert digests(empty) == digests(url)
    refused = told(empty, "restore", made["file"], code=1)
    assert refused.err.startswith("jiyi: the database has data (")
    assert "--force" in refused.err


@pytest.mark.long
def test_a_stopped_service_is_restored_into_a_home_of_its_own(url: str, tmp_path: Path) -> None:
    fill()
    forget()
    made = backups.make(tmp_path / "copy.dump")
    home = tmp_path / "home"
    nothing = jiyi("backup", code=1, JIYI_HOME=str(home))
    assert "there is no database in" in nothing.stderr
    assert not home.exists()
    assert "4 memory_nodes" in jiyi("restore", made.path, JIYI_HOME=str(home)).stdout
    copy = json.loads(jiyi("backup", "--json", JIYI_HOME=str(home)).stdout)
    assert Path(copy["file"]).parent == home / "backups"
    assert backups.verify(Path(copy["file"])) == backups.verify(made.path)
