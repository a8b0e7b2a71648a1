"""Looking through a store's sources: which files are new, changed, gone, or at another place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from sqlalchemy import Connection

from engine.stores.files.changes import Changes, Found, changes
from engine.stores.files.days import day_of
from jiyi.errors import ConfigError
from jiyi.settings import get_settings
from jiyi.stores.config.types import FileMemoryConfig
from models.db.connection import unit_of_work
from models.queue import pending_work
from models.queue.wakeups import wake
from models.stores import paths
from models.stores import rows as stores
from models.stores.files import rows
from models.stores.items import EMBED_ITEMS
from models.stores.kinds.file import INDEX, SCAN
from models.stores.kinds.kept import KeptStore
from tasks.framework.jobs import Run, job
from tasks.framework.work import Batch, work_task
from tasks.stores.files import disk
from tasks.stores.files.disk import Look

#: Seconds: some ten thousand files on a slow disk.
SCAN_TIME_LIMIT = 600
#: Notes that are kept with the store, and stores whose scan is owed in one transaction.
MAX_NOTES, PAGE = 5, 500


@dataclass(frozen=True, slots=True)
class _Sources:
    """A store's sources as they are on this worker's disk."""

    roots: Mapping[str, Path]
    allowed: list[Path]
    look: Look


@work_task(SCAN, queue="upkeep", batch=1, time_limit=SCAN_TIME_LIMIT)
def scan_files(batch: Batch) -> None:
    """Look through the sources of a store, and owe the indexing of what is new or changed.

    Files are looked at outside of any transaction. Safe to repeat because what is stored of a file is what was read of it: a second
    look finds no difference.
    """
    for store_id in batch.subject_ids:
        with unit_of_work() as connection:
            store = stores.by_ids(connection, [store_id]).get(store_id)
            known = [] if store is None else rows.known(connection, store.group_id, store_id, _cut(store.config))
        if store is None or store.type != "file":
            with batch.finish():
                continue
        sources = _look_through(store)
        look = sources.look
        made = changes(look.found, known, partial(_digest, sources), look.could_not_see)
        with batch.finish() as (connection, owed):
            if owed:
                _apply(connection, store, made)
                rows.note_scan(connection, store_id, "unreadable" if look.unseen else "ready", "; ".join(look.notes[:MAX_NOTES]))
        wake(INDEX, EMBED_ITEMS)


@job("scan_stores")
def scan_stores(run: Run) -> None:
    """Owe a look through the sources of each store of files.

    Safe to repeat because a look that is owed already is not owed again.
    """
    after: UUID | None = None
    while True:
        with run.transaction() as connection:
            page = rows.stores_of_files(connection, run.group_id, after, PAGE)
            if not run.dry:
                pending_work.enqueue(connection, SCAN, page)
        run.count(stores=len(page))
        if len(page) < PAGE:
            break
        after = page[-1][0]
    if not run.dry:
        wake(SCAN)


def _cut(config: FileMemoryConfig) -> dict[str, tuple[int, int, str]]:
    """How the files of each source are cut and decoded now."""
    return {source.path: (config.chunk_size, config.chunk_overlap, source.encoding) for source in reversed(config.file_sources)}


def _look_through(store: KeptStore) -> _Sources:
    allowed = paths.roots(store.group_id)
    found: dict[tuple[str, str], Found] = {}
    whole, roots = Look(), dict[str, Path]()
    for source in store.config.file_sources:
        try:
            root = roots[source.path] = paths.source_path(store.group_id, source.path, "file_sources")
        except ConfigError as error:  # allowed when it was declared, and no longer
            whole.notes.append(str(error))
            continue
        look = disk.look_through(source, root, allowed)
        found.update((one.place, one) for one in look.found)
        whole.notes += look.notes
        whole.unseen += look.unseen
    whole.found = sorted(found.values(), key=lambda one: one.place)
    return _Sources(roots, allowed, whole)


def _digest(sources: _Sources, found: Found) -> bytes | None:
    path = disk.path_of(sources.roots[found.place.source], found.place.path)
    return disk.digest_of(path, sources.allowed, get_settings().store_max_file_mb << 20)


def _apply(connection: Connection, store: KeptStore, made: Changes) -> None:
    if not (made.added or made.changed or made.removed or made.renamed):
        return
    group_id, store_id = store.group_id, store.store_id
    revision = stores.bump(connection, store_id, dropped=bool(made.removed or made.renamed))
    rows.drop(connection, group_id, made.removed)
    owed: list[UUID] = []
    for known, to in made.renamed:
        day = day_of(to.place.path, rows.first_chunk(connection, group_id, known.file_id))
        owed += rows.move(connection, group_id, store_id, revision, known.file_id, to, None if day is None else day.isoformat())
    added = rows.add(connection, group_id, store_id, made.added)
    pending_work.enqueue(connection, EMBED_ITEMS, [(item_id, group_id) for item_id in owed])
    due = [*added, *made.changed]
    for start in range(0, len(due), PAGE):
        pending_work.enqueue(connection, INDEX, [(file_id, group_id) for file_id in due[start : start + PAGE]])
