"""Blackboards, stores of runs, files of stores, attachments, secrets, tenants."""

from __future__ import annotations

import base64
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from jiyi.errors import ConfigError, InvalidRequest, NotFound
from jiyi.protocol.stores import AttachmentQuery, Snapshot, SnapshotBlock, StoreName, UpdateStore
from models.db.connection import unit_of_work
from models.operations import numbers
from models.stores import actions, reads, rows
from models.stores.saved_files import own_folder, source_path, storage_path
from tests.integration.memory.test_inbox import execute
from tests.integration.stores.kept import BOARD, SIMPLE, Kept, embed
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


@pytest.fixture
def kept(group: str) -> Kept:
    return Kept(group)


def ids(kept: Kept, name: str = "notes") -> list[str]:
    return [one.id for one in kept.items(name).rows]


def test_a_blackboard_has_the_latest_oldest_first(kept: Kept) -> None:
    kept.apply({**BOARD, "config": {"memory_path": "board.json", "max_items": 3}})
    for number in range(5):
        done = kept.say(f"said {number}", "board")
        assert (done.item_id or "").startswith("bb_")
    assert kept.say(" ", "board").reason == "there is nothing to note"
    assert kept.found("whatever", "board", top_k=2) == ["said 3", "said 4"]
    assert kept.found("whatever", "board", top_k=99) == ["said 2", "said 3", "said 4"]
    assert kept.ask("whatever", "board").hits[0].score is None
    assert embed() == 0


def test_a_blackboard_forgets_what_is_older_than_it_keeps(kept: Kept) -> None:
    kept.apply({**BOARD, "config": {"memory_path": "board.json", "max_age_hours": 2}})
    kept.say("long ago", "board")
    execute(
        "UPDATE store_items SET created_at = created_at - interval '3 hours' WHERE group_id = :g",
        g=kept.group,
    )
    assert kept.found("whatever", "board") == []
    assert kept.say("now", "board").dropped == 1
    assert kept.found("whatever", "board") == ["now"]


def test_a_store_without_a_path_is_the_runs_own(kept: Kept) -> None:
    """In the original `auto` of a blackboard is a path, and saving fails."""
    mine, board = (
        {"name": "notes", "type": "simple", "config": {}},
        {**BOARD, "config": {"memory_path": "auto"}},
    )
    assert [one.change for one in kept.apply(board).stores] == ["of_each_run"]
    for run_id in ("r1", "r2"):
        kept.apply(mine, board, run_id=run_id)
    kept.say("Only the first run knows about the teapot.", run_id="r1")
    kept.say("said", "board", run_id="r1")
    assert kept.perform(actions.save, StoreName(name="board", run_id="r1")).path is None
    assert kept.found("x", "board", run_id="r1") == ["said"]
    assert len(kept.items(run_id="r1").rows) == 1
    assert kept.items(run_id="r2").rows == []
    with pytest.raises(NotFound):
        kept.items()


def test_stores_of_old_runs_are_pruned_and_the_groups_stay(kept: Kept) -> None:
    kept.apply(SIMPLE)
    kept.apply({"name": "own", "type": "simple", "config": {}}, run_id="r1")
    with unit_of_work() as connection:
        connection.execute(
            text("UPDATE stores SET used_at = now() - interval '8 days' WHERE group_id = :g"),
            {"g": kept.group},
        )
        assert numbers.delete_old(connection, "stores", datetime.now(UTC) - timedelta(days=7), 1_000) >= 1
        left = (
            connection.execute(text("SELECT name FROM stores WHERE group_id = :g"), {"g": kept.group})
            .scalars()
            .all()
        )
    assert left == ["notes"]


def test_applying_again_changes_nothing_and_a_type_cannot_change(kept: Kept) -> None:
    assert [one.change for one in kept.apply(SIMPLE).stores] == ["made"]
    assert [one.change for one in kept.apply(SIMPLE).stores] == ["unchanged"]
    changed = {**SIMPLE, "config": {"memory_path": "notes.json", "max_items": 9}}
    assert [one.change for one in kept.apply(changed).stores] == ["changed"]
    with pytest.raises(ConfigError, match=r"memory\[0\].type: the store 'notes' is a simple store"):
        kept.apply({**BOARD, "name": "notes"})


def test_a_store_goes_to_a_file_and_comes_back(kept: Kept) -> None:
    kept.apply(SIMPLE)
    kept.say("The blue teapot broke on Tuesday.", inputs="What broke?")
    embed()
    assert kept.perform(actions.save, StoreName(name="notes")).path == "notes.json"
    [item] = json.loads((own_folder(kept.group) / "notes.json").read_text(encoding="utf-8"))
    assert set(item) == {
        "id",
        "content_summary",
        "input_snapshot",
        "output_snapshot",
        "metadata",
        "embedding",
        "timestamp",
    }
    assert len(item["embedding"]) == 256
    before = ids(kept)
    kept.perform(actions.delete, StoreName(name="notes"))
    kept.apply(SIMPLE)
    assert ids(kept) == before
    assert embed() == 1  # whose vectors a file has, nobody knows
    assert (kept.perform(actions.reindex, StoreName(name="notes")).count, kept.state().pending, embed()) == (
        1,
        1,
        1,
    )
    assert kept.items().rows[0].timestamp == pytest.approx(item["timestamp"])


def test_a_corrupt_file_is_set_aside_and_reported(kept: Kept) -> None:
    folder = own_folder(kept.group)
    folder.mkdir(parents=True)
    (folder / "notes.json").write_text("{broken", encoding="utf-8")
    kept.apply(SIMPLE)
    found = kept.state()
    assert (found.state, found.items) == ("corrupt", 0)
    assert "no JSON" in found.state_reason
    assert [one.read_text(encoding="utf-8") for one in folder.glob("notes.json.corrupt-*")] == ["{broken"]
    assert kept.say("It goes on all the same, from empty.").item_id


def test_paths_stay_in_their_folders(kept: Kept, tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "link").symlink_to(outside)
    (root / "loop").symlink_to(root / "loop")
    field = "memory[0].config.file_sources[0].path"
    with environment(store_roots=str(root)):
        for path in (
            "/proc/self/environ",
            "/etc/passwd",
            f"{root}/../outside/a.md",
            f"{root}/link/a.md",
            "\0",
            str(root) + "x",
        ):
            with pytest.raises(ConfigError, match="memory"):
                source_path(kept.group, path, field)
        assert source_path(kept.group, f"{root}/a.md", "x") == root.resolve() / "a.md"
        for path in ("../other/notes.json", "/etc/notes.json", f"{root}/link/notes.json", "notes.txt"):
            with pytest.raises(ConfigError, match="x: "):
                storage_path(kept.group, path, "x")
        with pytest.raises(ConfigError, match=r"memory\[0\].config.memory_path"):
            kept.apply({**SIMPLE, "config": {"memory_path": "/etc/notes.json"}})
        if os.geteuid():  # root may write everywhere
            root.chmod(0o500)
            with pytest.raises(ConfigError, match="cannot be written"):
                kept.apply({**SIMPLE, "config": {"memory_path": str(root / "a.json")}})
    assert source_path(kept.group, "docs/workflows.md", "x").name == "workflows.md"
    with pytest.raises(ConfigError, match="x: "):
        storage_path(kept.group, str(Path("docs/stores.json").resolve()), "x")


def test_attachments_are_kept_once_and_come_back_equal(kept: Kept) -> None:
    kept.apply(SIMPLE)
    data = os.urandom(2_000)
    block = {
        "type": "image",
        "data": base64.b64encode(data).decode("ascii"),
        "mime_type": "image/png",
        "name": "kiln.png",
    }
    for number in (1, 2):
        output = Snapshot(
            text=f"This is picture {number} of the kiln.",
            blocks=[SnapshotBlock(role="assistant", block=block)],
        )
        kept.perform(
            actions.update, UpdateStore(name="notes", role="painter", inputs_text="?", output_snapshot=output)
        )
    state = kept.state()
    assert (state.attachments, state.attachment_bytes) == (1, 2_000)
    [note] = kept.items().rows[0].metadata["attachments"]
    assert {**note, "attachment_id": ""} == {
        "role": "assistant",
        "attachment_id": "",
        "mime_type": "image/png",
        "name": "kiln.png",
        "size": 2_000,
    }
    found = kept.perform(
        actions.attachment, AttachmentQuery(name="notes", attachment_id=note["attachment_id"])
    )
    assert base64.b64decode(found.data) == data
    [hit, _] = kept.ask("picture of the kiln").hits
    assert hit.item.output_snapshot is not None
    assert hit.item.output_snapshot.blocks[0].block == block


def test_attachments_go_with_their_last_item_and_have_a_bound(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.stores.items.MAX_ATTACHMENTS", 1_000)
    kept.apply({**SIMPLE, "config": {"memory_path": "notes.json", "max_items": 1}})

    def paint(size: int) -> None:
        block = {"data": base64.b64encode(bytes(size)).decode("ascii"), "mime_type": "image/png"}
        output = Snapshot(
            text="This is a picture of the kiln.", blocks=[SnapshotBlock(role="assistant", block=block)]
        )
        kept.perform(actions.update, UpdateStore(name="notes", role="painter", output_snapshot=output))

    with pytest.raises(InvalidRequest, match="more than 1,000"):
        paint(2_000)
    assert kept.items().rows == []
    paint(100)
    assert kept.state().attachments == 1
    kept.say("Something else was said after that.")
    assert kept.state().attachments == 0


def test_secrets_are_neither_kept_in_clear_nor_shown(kept: Kept) -> None:
    config = {
        "memory_path": "notes.json",
        "embedding": {"provider": "openai", "model": "m", "api_key": "sk-very-secret"},
    }
    kept.apply({**SIMPLE, "config": config})
    assert "sk-very-secret" not in kept.state().model_dump_json()
    with unit_of_work() as connection:
        row = connection.execute(
            text("SELECT config::text, secrets FROM stores WHERE group_id = :g"), {"g": kept.group}
        ).one()
        audit = (
            connection.execute(
                text("SELECT details::text FROM audit_log WHERE group_id = :g"), {"g": kept.group}
            )
            .scalars()
            .all()
        )
    assert "sk-very-secret" not in f"{row} {audit}"
    assert b"sk-very-secret" not in bytes(row.secrets)
    with unit_of_work() as connection:
        assert (
            rows.need(connection, kept.group, "notes").config.embedding.api_key.get_secret_value()
            == "sk-very-secret"
        )


@pytest.mark.parametrize(
    ("embedding", "field"),
    [
        ({"provider": "openai", "model": "m"}, "api_key"),
        (
            {"provider": "openai", "model": "m", "api_key": "k", "base_url": "http://127.0.0.1:9/v1"},
            "base_url",
        ),
        (
            {"provider": "compatible", "model": "m", "api_key": "k", "base_url": "http://169.254.169.254/v1"},
            "base_url",
        ),
        ({"provider": "compatible", "model": "m"}, "base_url"),
        ({"provider": "ollama", "model": "m"}, "base_url"),
    ],
)
def test_an_embedder_in_a_private_network_or_without_a_key_is_refused(
    kept: Kept, embedding: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError, match=rf"memory\[0\].config.embedding.{field}: "):
        kept.apply({**SIMPLE, "config": {"memory_path": "notes.json", "embedding": embedding}})


def test_the_map_has_what_nodes_use(kept: Kept) -> None:
    kept.apply(
        SIMPLE,
        BOARD,
        nodes=(
            {
                "id": "a",
                "memories": [{"name": "board", "read": False}, {"name": "notes", "retrieve_stage": ["pre"]}],
            },
        ),
    )
    with unit_of_work() as connection:
        found = reads.node_map(connection, kept.group)
    assert [
        tuple(one[field] for field in ("store_name", "read", "write", "retrieve_stage")) for one in found
    ] == [("board", False, True, None), ("notes", True, True, ["pre_gen_thinking"])]
