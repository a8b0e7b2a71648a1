"""One file becomes chunks: read, cut, and written in one transaction."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from engine.stores.files.chunks import chunk_of
from engine.stores.files.formats import suffix_of
from engine.stores.files.states import Unusable
from jiyi.errors import ConfigError
from jiyi.settings import get_settings
from jiyi.stores.config.types import FileMemoryConfig, FileSource
from models.db.connection import unit_of_work
from models.queue import pending_work
from models.queue.wakeups import wake
from models.stores import paths
from models.stores import rows as stores
from models.stores.files import rows
from models.stores.files.rows import FileRow, Outcome
from models.stores.items import EMBED_ITEMS
from models.stores.kinds.file import INDEX
from models.stores.kinds.kept import KeptStore
from tasks.framework.work import Batch, work_task
from tasks.stores.files import disk
from tasks.stores.files.disk import Contents
from tasks.stores.files.extraction import Extracted, extract

#: Files that one run indexes, each in a transaction of its own; and seconds that it may take.
FILES_A_RUN, INDEX_TIME_LIMIT = 16, 600
#: Seconds after which a run begins no further file: one costs up to :class:`engine.parsing.limits.Limits`, so many hostile ones of a group
#: would hold the thread, and other groups' work, for half an hour.
RUN_SECONDS = 60.0
#: States that may pass without the file changing: such a file is looked at again with every scan, and what was indexed stays for
#: the one that is being written to.
_PASSING = frozenset({"unstable", "outside", "unreadable"})


@work_task(INDEX, queue="upkeep", batch=FILES_A_RUN, time_limit=INDEX_TIME_LIMIT)
def index_file(batch: Batch) -> None:
    """Read files, and write the chunks of each in one transaction with the receipt.

    Safe to repeat because a file's chunks have ids of their place, and replace those that it had: whoever dies while reading
    leaves the old index, whoever dies after the commit leaves nothing owed.
    """
    with unit_of_work() as connection:
        files = rows.find(connection, batch.group_id, batch.subject_ids)
        found = stores.by_ids(connection, list({file.store_id for file in files.values()}))
    until = time.monotonic() + RUN_SECONDS
    for place, file_id in enumerate(batch.subject_ids):
        if place and time.monotonic() > until:
            batch.put_off(batch.subject_ids[place:], "the files before took the time of a run")
            break
        one, file = batch.only(file_id), files.get(file_id)
        if file is None or file.store_id not in found:
            with one.finish():
                continue
        _index(one, found[file.store_id], file)
    wake(EMBED_ITEMS)


def _index(batch: Batch, store: KeptStore, file: FileRow) -> None:
    config: FileMemoryConfig = store.config
    source = _source(config, file)
    if source is None:  # declared no longer
        _forget(batch, store, file)
        return
    path, allowed = Path(), paths.roots(store.group_id)
    try:
        path = disk.path_of(paths.source_path(store.group_id, source.path, "file_sources"), file.path)
        contents = disk.read(path, allowed, get_settings().store_max_file_mb << 20)
        if _is_indexed(file, config, source, contents):
            _note(batch, store, file, contents)
        else:
            extracted = extract(contents.data, file.path, source.encoding, config.chunk_size, config.chunk_overlap)
            _write(batch, store, file, source, contents, extracted)
    except FileNotFoundError:
        _forget(batch, store, file)
    except ConfigError as error:
        _refuse(batch, store, file, source, Unusable("outside", str(error)), path, allowed)
    except Unusable as problem:
        _refuse(batch, store, file, source, problem, path, allowed)


def _source(config: FileMemoryConfig, file: FileRow) -> FileSource | None:
    ending = suffix_of(file.path)
    return next((one for one in config.file_sources if one.path == file.source and ending in one.endings), None)


def _is_indexed(file: FileRow, config: FileMemoryConfig, source: FileSource, contents: Contents) -> bool:
    cut = (file.chunk_size, file.chunk_overlap, file.encoding) == (config.chunk_size, config.chunk_overlap, source.encoding)
    return cut and file.state == "indexed" and file.file_hash == contents.digest


def _write(batch: Batch, store: KeptStore, file: FileRow, source: FileSource, contents: Contents, extracted: Extracted) -> None:
    config: FileMemoryConfig = store.config
    chunks = [chunk_of(store.store_id, file.source, file.path, number, said) for number, (said, _) in enumerate(extracted.chunks)]
    words = [words for _, words in extracted.chunks]
    metadata = {
        "source_type": "file",
        "file_path": file.path,
        "file_name": file.path.rpartition("/")[2],
        "file_hash": contents.digest.hex(),
        "file_size": contents.size,
        "file_day": extracted.day,
        "source": file.source,
        "encoding": extracted.encoding,
    }
    outcome = Outcome(
        state="indexed",
        file_hash=contents.digest,
        size=contents.size,
        modified_ns=contents.modified_ns,
        encoding=source.encoding,
        chunk_size=config.chunk_size,
        chunk_overlap=config.chunk_overlap,
        chunks_count=len(chunks),
        at=datetime.now(UTC),
    )
    with batch.finish() as (connection, owed):
        if not owed:
            return
        revision = stores.bump(connection, store.store_id, dropped=True)
        if not rows.is_there(connection, store.group_id, file.file_id):
            return
        missing = rows.write_chunks(connection, store.group_id, store.store_id, file.file_id, revision, chunks, words, metadata)
        rows.write_outcome(connection, store.group_id, file.file_id, outcome)
        pending_work.enqueue(connection, EMBED_ITEMS, [(item_id, store.group_id) for item_id in missing])


def _note(batch: Batch, store: KeptStore, file: FileRow, contents: Contents) -> None:
    """The bytes are those that were indexed: only their time is another."""
    with batch.finish() as (connection, owed):
        if owed:
            rows.touch(connection, store.group_id, file.file_id, contents.size, contents.modified_ns, datetime.now(UTC))


def _forget(batch: Batch, store: KeptStore, file: FileRow) -> None:
    """It is gone."""
    with batch.finish() as (connection, owed):
        if owed:
            stores.bump(connection, store.store_id, dropped=True)
            rows.drop(connection, store.group_id, [file.file_id])


def _refuse(batch: Batch, store: KeptStore, file: FileRow, source: FileSource, problem: Unusable, path: Path, allowed: list[Path]) -> None:
    """Nothing can be made of it as it is: its state says why, and what was indexed of it goes, unless it is only being written to."""
    config: FileMemoryConfig = store.config
    size, modified_ns = disk.size_and_time(path, allowed)
    passing = problem.state in _PASSING
    outcome = Outcome(
        state=problem.state,
        reason=problem.reason,
        size=size,
        modified_ns=modified_ns,
        encoding=source.encoding,
        chunk_size=None if passing else config.chunk_size,
        chunk_overlap=None if passing else config.chunk_overlap,
        at=datetime.now(UTC),
    )
    with batch.finish() as (connection, owed):
        if not owed:
            return
        if problem.state != "unstable":
            stores.bump(connection, store.store_id, dropped=True)
            rows.drop_chunks(connection, store.group_id, file.file_id)
        rows.write_outcome(connection, store.group_id, file.file_id, outcome)
