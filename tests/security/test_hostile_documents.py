"""Documents that unfold, hang or hide: each is marked with the reason, others are indexed, and the worker
stays as it was.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.stores.limits import ParseLimits
from jiyi.errors import ConfigError
from jiyi.protocol.stores import ApplyGraph
from jiyi.settings import get_settings
from models.db.actions import Actor
from models.stores import actions
from models.stores.saved_files import own_folder
from tasks.stores import index_files
from tests.integration.memory.test_inbox import rows
from tests.integration.stores.folders import Folder
from tests.integration.stores.kept import SIMPLE, Kept
from tests.unit.parsing.test_children import HIDDEN_DEPTH

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

KILN = "The kiln reached 1,240 degrees on Monday."
#: Bytes that the worker may grow by: of one attack it grew by two thousand megabytes.
GROWTH = 300 << 20
#: A name of half a million characters, which stands before each of fifty thousand values.
REPEATED_NAME = '{"' + "k" * 500_000 + '": [' + ",".join(['{"a": 1}'] * 50_000) + "]}"
#: Columns with names of a hundred thousand characters each, before every value.
REPEATED_HEADERS = (
    ",".join(f"{number}{'x' * 100_000}" for number in range(10)) + "\n" + "a,b,c,d,e,f,g,h,i,j\n" * 5_000
)


@pytest.fixture
def docs(tmp_path: Path, group: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    monkeypatch.setenv("JIYI_STORE_ROOTS", str(tmp_path))
    get_settings.cache_clear()
    path = tmp_path / "docs"
    path.mkdir()
    yield Folder(group, path)
    monkeypatch.undo()
    get_settings.cache_clear()


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


#: Documents, and the states that they may have.
UNFOLDING = {
    "names.json": (REPEATED_NAME, {"indexed", "too_large"}),  # cut, so that what they stand before fits
    "headers.csv": (REPEATED_HEADERS, {"too_large"}),
    "objects.json": ("[" + "{}," * 5_000_000 + "{}]", {"empty", "too_large"}),
    "nul.json": ('{"a": "\\u0000"}', {"indexed"}),
    "good.md": (KILN, {"indexed"}),
}


def test_what_unfolds_is_marked_and_the_worker_does_not_grow(docs: Folder) -> None:
    for name, (content, _) in UNFOLDING.items():
        docs.write(name, content)
    before = peak_bytes()
    docs.scan()
    found = docs.states()
    assert [name for name, (_, states) in UNFOLDING.items() if found[name] not in states] == []
    assert docs.first("kiln") == KILN
    assert peak_bytes() - before < GROWTH


def test_what_hangs_is_marked_with_the_reason_and_the_rest_is_indexed(
    docs: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_files, "limits_of", lambda _: ParseLimits(cpu_seconds=1))
    docs.write("hidden.html", HIDDEN_DEPTH)
    docs.write("good.md", KILN)
    docs.scan()
    assert docs.states() == {"hidden.html": "too_large", "good.md": "indexed"}
    assert docs.reasons()["hidden.html"] == "parsing it takes more than 1 s of the processor"
    assert docs.first("kiln") == KILN


def test_encodings_are_those_that_texts_are_written_in(docs: Folder, group: str) -> None:
    for encoding in "punycode idna unicode_escape utf-7 zip rot13 undefined mbcs".split():
        config = {"file_sources": [{"path": str(docs.path), "encoding": encoding}]}
        with pytest.raises(ConfigError, match=r"file_sources\[0\]\.encoding: unknown encoding"):
            graph = ApplyGraph(graph="g", memory=[{"name": "files", "type": "file", "config": config}])
            actions.apply.perform(Actor(group, "test"), graph)


def test_what_a_store_is_saved_to_is_no_source_of_another_one(
    docs: Folder, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JIYI_HOME", str(docs.path.parent / "around" / "home"))
    get_settings.cache_clear()
    kept = Kept(group)
    kept.apply({**SIMPLE, "name": "written"})
    kept.say("Only the store is to have this.", "written")
    kept.perform(actions.save, actions.StoreName(name="written"))
    own = own_folder(group)
    assert (own / "notes.json").is_file()
    for roots in (str(docs.path), "/"):
        monkeypatch.setenv("JIYI_STORE_ROOTS", roots)
        get_settings.cache_clear()
        for path in (own, own / "notes.json", get_settings().home):
            source = {"name": "files", "type": "file", "config": {"file_sources": [{"path": str(path)}]}}
            with pytest.raises(ConfigError, match="in none of the folders"):
                kept.apply(source)
    (docs.path / "link.json").symlink_to(own / "notes.json")
    docs.scan()
    assert docs.states() == {}
    docs.declare(file_sources=[{"path": str(get_settings().home.parent), "file_types": ["json"]}])
    docs.scan()
    assert not [path for path in docs.states() if f"{own.name}/notes.json" in path]
    monkeypatch.setenv("JIYI_STORE_ROOTS", str(own))  # though it is in a folder that may be read
    get_settings.cache_clear()
    docs.declare(file_sources=[{"path": str(own)}])
    docs.scan()
    assert docs.states() == {}


ITEM = '{"id": "a", "content_summary": "x", "timestamp": '
SAVED = (
    "[" * 1_000_000,
    f"[{ITEM}1e300}}]",
    f'[{ITEM}1, "metadata": {{"a": "\\u0000"}}}}]',
    f'[{ITEM}1}}, {{"id": "b"}}]',
    f'[{ITEM}1, "metadata": {{"a": [' + "{}," * 9_000_000 + "{}]}}]",
)


def test_a_hostile_saved_store_is_set_aside_as_a_whole(group: str) -> None:
    before = peak_bytes()
    for number, content in enumerate(SAVED):
        kept = Kept(f"{group}-{number}")
        folder = own_folder(kept.group)
        folder.mkdir(parents=True)
        (folder / "notes.json").write_text(content, encoding="utf-8")
        kept.apply(SIMPLE)
        found = kept.state()
        assert (found.state, found.items) == ("corrupt", 0)
        assert found.state_reason
        assert list(folder.glob("notes.json.corrupt-*"))
        assert peak_bytes() - before < GROWTH
        assert rows("SELECT FROM store_items WHERE group_id = :g", g=kept.group) == []


def test_folders_of_stores_are_their_owner_s(group: str) -> None:
    kept = Kept(group)
    kept.apply(SIMPLE)
    kept.say("Nobody else on the machine is to read this.")
    kept.perform(actions.save, actions.StoreName(name="notes"))
    own = own_folder(group)
    assert {oct(path.stat().st_mode & 0o777) for path in (own, own.parent)} == {"0o700"}
    assert oct((own / "notes.json").stat().st_mode & 0o777) == "0o600"
