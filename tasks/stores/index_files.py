"""Looking through a store's sources: which files are new, changed, gone, or at another place."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from engine.stores.children import parse
from engine.stores.chunks import Changes, FilePlace, ScannedFile, changes, chunk_of, day_of, limits_of
from engine.stores.file_texts import UnindexableFile, suffix_of
from engine.stores.limits import RefusedDocument
from jiyi.errors import ConfigError
from jiyi.stores.types import FileMemoryConfig
from models.db.connection import unit_of_work
from models.queue import pending_work
from models.stores import file_rows, rows, saved_files
from models.stores.backends import INDEX, SCAN
from models.stores.file_rows import FileRow, Outcome
from models.stores.items import EMBED_ITEMS
from models.stores.rows import StoreRecord
from tasks.framework.jobs import Run, job
from tasks.framework.work import Batch, work_task
from tasks.stores import disk
from tasks.stores.disk import FileContents, SourceScan

#: Seconds: some ten thousand files on a slow disk.
SCAN_TIME_LIMIT = 600
#: Notes that are kept with a store, and stores whose scan is enqueued in one transaction.
MAX_NOTES, PAGE = 5, 500


@dataclass(frozen=True, slots=True)
class _Sources:
    """A store's sources as they are on this worker's disk."""

    roots: Mapping[str, Path]
    allowed: list[Path]
    scan: SourceScan


@work_task(SCAN, batch=1, time_limit=SCAN_TIME_LIMIT)
def scan_files(batch: Batch) -> None:
    """Scan the sources of a store, and enqueue the indexing of new or changed files; else save the index if
    it has changed.

    Files are looked at outside of any transaction. Safe to repeat because what is stored of a file is what
    was read of it: a second look finds no difference.
    """
    for store_id in batch.subject_ids:
        with unit_of_work() as connection:
            store = rows.by_ids(connection, [store_id]).get(store_id)
            if store is not None and store.type == "file":
                store_files = saved_files.storage_paths(connection, store.group_id)
                known_files = file_rows.known(connection, store, _cut(store.config))
        if store is None or store.type != "file":
            with batch.finish():
                continue
        sources = _scan_sources(store, store_files)
        scan = sources.scan
        changed = changes(scan.files, known_files, partial(_digest_of, sources), scan.is_unreadable)
        with batch.finish() as (connection, pending):
            if pending:
                _apply_changes(connection, store, changed)
                notes = [*scan.notes, saved_files.save_changed_index(connection, store)]
                reason = "; ".join(list(filter(None, notes))[:MAX_NOTES])
                file_rows.note_scan(connection, store_id, "unreadable" if scan.unseen else "ready", reason)


@job("scan_stores")
def scan_stores(run: Run) -> None:
    """Enqueue a scan of the sources of each store of files.

    Safe to repeat because a scan that is pending already is not enqueued again.
    """
    after: UUID | None = None
    while True:
        with unit_of_work() as connection:
            page = file_rows.stores_of_files(connection, run.group_id, after, PAGE)
            pending_work.enqueue(connection, SCAN, page)
        run.count(stores=len(page))
        if len(page) < PAGE:
            break
        after = page[-1][0]


def _cut(config: FileMemoryConfig) -> dict[str, tuple[int, int, str]]:
    """How the files of each source are cut and decoded now."""
    return {
        source.path: (config.chunk_size, config.chunk_overlap, source.encoding)
        for source in reversed(config.file_sources)
    }


def _scan_sources(store: StoreRecord, excluded: Collection[Path]) -> _Sources:
    """``excluded``: files that stores are saved to, which are not indexed."""
    allowed = saved_files.roots(store.group_id)
    files: dict[FilePlace, ScannedFile] = {}
    whole, roots = SourceScan(), dict[str, Path]()
    for source in store.config.file_sources:
        try:
            root = roots[source.path] = saved_files.source_path(store.group_id, source.path, "file_sources")
        except ConfigError as error:  # allowed when it was declared, and no longer
            whole.notes.append(str(error))
            continue
        scan = disk.scan_source(source, root, allowed)
        for file in scan.files:
            if disk.path_of(root, file.place.path).resolve() not in excluded:
                files[file.place] = file
        whole.notes += scan.notes
        whole.unseen += scan.unseen
    whole.files = sorted(files.values(), key=lambda one: one.place)
    return _Sources(roots, allowed, whole)


def _digest_of(sources: _Sources, file: ScannedFile) -> bytes | None:
    path = disk.path_of(sources.roots[file.place.source], file.place.path)
    return disk.digest_of(path, sources.allowed)


def _apply_changes(connection: Connection, store: StoreRecord, difference: Changes) -> None:
    if not (difference.added or difference.changed or difference.removed or difference.renamed):
        return
    group_id = store.group_id
    revision = rows.bump(connection, store.store_id)
    file_rows.drop(connection, group_id, difference.removed)
    item_ids: list[UUID] = []
    for file, to in difference.renamed:
        day = day_of(to.place.path, file_rows.first_chunk(connection, group_id, file.file_id))
        item_ids += file_rows.move(connection, store, revision, file.file_id, to, day)
    due = [*file_rows.add(connection, store, difference.added), *difference.changed]
    pending_work.enqueue(connection, EMBED_ITEMS, [(item_id, group_id) for item_id in item_ids])
    pending_work.enqueue(connection, INDEX, [(file_id, group_id) for file_id in due])


def extract(
    data: bytes, path: str, encoding: str, size: int, overlap: int
) -> tuple[dict[str, Any], list[Any]]:
    """What :func:`engine.stores.chunks.parse_document` says of a file, and its chunks.

    Raises:
        UnindexableFile: there is no text in it, or it costs more than its limits allow.
    """
    cut = {"path": path, "encoding": encoding, "size": size, "overlap": overlap}
    try:
        about, *chunks = parse("document", data, limits_of(path), **cut)
    except RefusedDocument as refused:
        raise UnindexableFile.of(refused) from None
    return about, chunks


#: Files that one run indexes, each in a transaction of its own; and seconds that it may take.
FILES_A_RUN, INDEX_TIME_LIMIT = 16, 600
#: Seconds after which a run begins no further file: many hostile ones of a group would hold the thread, and
#: other groups' work, for half an hour.
RUN_SECONDS = 60.0
#: States that may pass without the file changing: such a file is looked at again with every scan.
_PASSING = frozenset({"unstable", "outside", "unreadable"})


@work_task(INDEX, batch=FILES_A_RUN, time_limit=INDEX_TIME_LIMIT)
def index_file(batch: Batch) -> None:
    """Read files, and write the chunks of each in one transaction with the receipt.

    Safe to repeat because a file's chunks have ids of their place, and replace those that it had: a worker
    that dies while reading leaves the old index, one that dies after the commit leaves nothing pending.
    """
    with unit_of_work() as connection:
        files = file_rows.find(connection, batch.group_id, batch.subject_ids)
        stores = rows.by_ids(connection, list({file.store_id for file in files.values()}))
    until = time.monotonic() + RUN_SECONDS
    for place, file_id in enumerate(batch.subject_ids):
        if place and time.monotonic() > until:
            batch.put_off(batch.subject_ids[place:], "the files before took the time of a run")
            break
        item, file = batch.only(file_id), files.get(file_id)
        if file is None or file.store_id not in stores:
            with item.finish():
                continue
        _index(item, stores[file.store_id], file)


def _index(batch: Batch, store: StoreRecord, file: FileRow) -> None:
    source = next(
        (
            source
            for source in store.config.file_sources
            if source.path == file.source and suffix_of(file.path) in source.endings
        ),
        None,
    )
    if source is None:  # declared no longer
        _forget(batch, store, file)
        return
    path, allowed = Path(), saved_files.roots(store.group_id)
    config: FileMemoryConfig = store.config
    cut: dict[str, Any] = {
        "encoding": source.encoding,
        "chunk_size": config.chunk_size,
        "chunk_overlap": config.chunk_overlap,
    }
    try:
        path = disk.path_of(saved_files.source_path(store.group_id, source.path, "file_sources"), file.path)
        contents = disk.read(path, allowed)
        same = file.state == "indexed" and file.file_hash == contents.digest
        if same and all(getattr(file, name) == value for name, value in cut.items()):
            _note(batch, store, file, contents)
        else:
            about, chunks = extract(
                contents.data, file.path, source.encoding, config.chunk_size, config.chunk_overlap
            )
            _write(batch, store, file, cut, contents, about, chunks)
    except FileNotFoundError:
        _forget(batch, store, file)
    except (ConfigError, UnindexableFile) as error:
        problem = error if isinstance(error, UnindexableFile) else UnindexableFile("outside", str(error))
        _refuse(batch, store, file, cut, problem, disk.size_and_time(path, allowed))


def _write(
    batch: Batch,
    store: StoreRecord,
    file: FileRow,
    cut: Mapping[str, Any],
    contents: FileContents,
    about: Mapping[str, Any],
    pieces: list[Any],
) -> None:
    chunks = [
        chunk_of(store.store_id, file.place, number, text, words)
        for number, (text, words) in enumerate(pieces)
    ]
    metadata = {
        "source_type": "file",
        "file_path": file.path,
        "file_name": file.path.rpartition("/")[2],
        "file_hash": contents.digest.hex(),
        "file_size": contents.size,
        "file_day": about["day"],
        "source": file.source,
        "encoding": about["encoding"],
    }
    outcome = Outcome(
        state="indexed",
        file_hash=contents.digest,
        size=contents.size,
        modified_ns=contents.modified_ns,
        chunks_count=len(chunks),
        **cut,
    )
    with batch.finish() as (connection, pending):
        if not pending:
            return
        revision = rows.bump(connection, store.store_id)
        if not file_rows.is_there(connection, store.group_id, file.file_id):
            return
        missing = file_rows.write_chunks(connection, store, file.file_id, revision, chunks, metadata)
        file_rows.write_outcome(connection, store.group_id, file.file_id, outcome)
        pending_work.enqueue(connection, EMBED_ITEMS, [(item_id, store.group_id) for item_id in missing])


def _note(batch: Batch, store: StoreRecord, file: FileRow, contents: FileContents) -> None:
    """The bytes are those that were indexed: only their time is another."""
    with batch.finish() as (connection, pending):
        if pending:
            size_and_time = contents.size, contents.modified_ns
            file_rows.touch(connection, store.group_id, file.file_id, *size_and_time)


def _forget(batch: Batch, store: StoreRecord, file: FileRow) -> None:
    """It is gone."""
    with batch.finish() as (connection, pending):
        if pending:
            rows.bump(connection, store.store_id)
            file_rows.drop(connection, store.group_id, [file.file_id])


def _refuse(
    batch: Batch,
    store: StoreRecord,
    file: FileRow,
    cut: Mapping[str, Any],
    problem: UnindexableFile,
    size_and_time: tuple[int, int],
) -> None:
    """Its state says why; what was indexed of it goes, unless it is only being written to."""
    if problem.state in _PASSING:
        cut = {"encoding": cut["encoding"]}
    size, modified_ns = size_and_time
    outcome = Outcome(state=problem.state, reason=problem.reason, size=size, modified_ns=modified_ns, **cut)
    with batch.finish() as (connection, pending):
        if not pending:
            return
        if problem.state != "unstable":
            rows.bump(connection, store.store_id)
            file_rows.drop_chunks(connection, store.group_id, [file.file_id])
        file_rows.write_outcome(connection, store.group_id, file.file_id, outcome)
