"""What many files cost: time and memory of indexing, and whether exactly what changed is embedded again.

    python -m bench.support.stores.files_scale STORE FOLDER

is one process that indexes a folder in the database that the environment names, and prints what it took; its
peak memory is its own. Vectors are hashed ones: a model of its own would be what is measured.
"""

from __future__ import annotations

import json
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from sqlalchemy import text

from bench.support.stores.files import GROUP, QUIET, declare, do_owed
from engine.providers.embedders import HashingEmbedder
from engine.stores.chunks import FilePlace, chunk_of
from jiyi.protocol.stores import RetrieveItems
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.splitting import split
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from models.stores import rows
from workers import ephemeral

#: What happens to the files before they are looked through again.
CHANGED, DELETED, RENAMED = 100, 10, 5
#: Files in a folder, and characters of a file: three or four chunks.
IN_FOLDER, CHARS = 100, 1_500
QUESTIONS = 30
#: What every line of a file begins with.
FILE_NUMBER = re.compile(r"F\d{5}")
SEED = 20240401
WORDS = (
    "kiln glaze clay wheel ash feldspar shelf cone bowl jar temperature log Monday Tuesday Harriet Tomas 窑"
    " 釉 林岚 橘子 温度 院子".split()
)


def write(folder: Path, number: int, version: int = 0) -> Path:
    """A file that no other one is equal to."""
    words = random.Random(f"{SEED}/{number}/{version}")
    path = folder / f"{number // IN_FOLDER:03d}" / f"{number:05d}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    said, length = [f"# File {number}, version {version}"], 0
    while length < CHARS:
        said.append(f"F{number:05d} {' '.join(words.choices(WORDS, k=12))} {words.randrange(10**9)}.")
        length += len(said[-1])
    path.write_text("\n".join(said), encoding="utf-8")
    return path


def scale_files(files: int, console: Console = QUIET) -> dict[str, Any]:
    """Indexing of a tenth of the files and of all of them, each by a process of its own; then changes."""
    with ephemeral.folder("jiyi-bench-") as home:
        folder = home / "files"
        with ephemeral.database(home, store_roots=str(folder), embedder="hashing"), whole_service():
            few, many = folder / "few", folder / "many"
            for count, place in ((files // 10, few), (files, many)):
                for number in range(count):
                    write(place, number)
            found = {
                str(files // 10): _indexed("few", few, console),
                str(files): _indexed("many", many, console),
            }
            ratio = found[str(files)]["peak_mb"] / found[str(files // 10)]["peak_mb"]
            _change(many, files)
            again = _indexed("many", many, console)
            return {
                "indexing": found,
                "peak_ratio": round(ratio, 2),
                "after_changes": {
                    "seconds": again["seconds"],
                    "files_embedded": again["files_embedded"],
                    "stale_chunks": _stale("many", many),
                },
                "search_p50_ms": _p50("many"),
            }


def _change(folder: Path, files: int) -> None:
    chosen = random.Random(SEED).sample(range(files), CHANGED + DELETED + RENAMED)
    for number in chosen[:CHANGED]:
        write(folder, number, version=1)
    for number in chosen[CHANGED:]:
        path = folder / f"{number // IN_FOLDER:03d}" / f"{number:05d}.md"
        if number in chosen[CHANGED : CHANGED + DELETED]:
            path.unlink()
        else:
            path.rename(path.with_name(f"renamed-{path.name}"))


def _indexed(name: str, folder: Path, console: Console) -> dict[str, Any]:
    console.print(f"indexing {folder.name}", style="dim")
    command = [sys.executable, "-m", "bench.support.stores.files_scale", name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _stale(name: str, folder: Path) -> int:
    """Chunks that are not what the folder's files say now, and chunks that are missing."""
    with unit_of_work() as connection:
        store = rows.need(connection, GROUP, name)
        stored = {row.item_id for row in connection.execute(_ITEMS, {"id": store.store_id})}
        unembedded = connection.execute(_UNEMBEDDED, {"id": store.store_id}).scalar_one()
    expected = {
        chunk_of(store.store_id, FilePlace(str(folder), name), number, piece.text).item_id
        for path in folder.rglob("*.md")
        for name in [path.relative_to(folder).as_posix()]
        for number, piece in enumerate(split(path.read_text(encoding="utf-8")))
    }
    return len(stored ^ expected) + int(unembedded)


def _p50(name: str) -> float:
    from tasks.stores.search import search

    words = random.Random(SEED)
    with unit_of_work() as connection:
        store = rows.need(connection, GROUP, name)
    times = []
    with for_groups(GROUP):
        for _ in range(QUESTIONS):
            request = RetrieveItems(name=name, query=" ".join(words.choices(WORDS, k=5)))
            begun = time.perf_counter()
            search(store, request)
            times.append(1_000 * (time.perf_counter() - begun))
    return round(median(times), 1)


def main() -> None:
    """The process that indexes."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    embedded: set[str] = set()
    real = HashingEmbedder.passages

    def noted(self: HashingEmbedder, texts: Sequence[str]) -> Float32:
        embedded.update(number for text in texts for number in FILE_NUMBER.findall(text))
        return real(self, texts)

    HashingEmbedder.passages = noted  # type: ignore[method-assign]
    with whole_service():
        store = declare(name, folder)
        begun = time.perf_counter()
        do_owed()
        seconds = time.perf_counter() - begun
        with unit_of_work() as connection:
            chunks = connection.execute(_COUNT, {"id": store.store_id}).scalar_one()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "seconds": round(seconds, 1),
                "peak_mb": round(peak),
                "chunks": chunks,
                "files_embedded": len(embedded),
            }
        )
    )


_ITEMS = text("SELECT item_id FROM store_items WHERE store_id = :id")
_UNEMBEDDED = text("SELECT count(*) FROM store_items WHERE store_id = :id AND embedding IS NULL")
_COUNT = text("SELECT count(*) FROM store_items WHERE store_id = :id")

if __name__ == "__main__":
    main()
