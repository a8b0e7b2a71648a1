"""The files of a store's sources, as the worker's disk has them: found, and read within bounds.

Nothing outside of the folders that a store may use is opened, even through links, or if a path changes
meanwhile: the opened file itself is asked for its path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from engine.stores.chunks import FilePlace, ScannedFile
from engine.stores.file_texts import UnindexableFile, suffix_of
from jiyi.stores.types import FileSource
from models.stores.saved_files import is_within

#: Bytes of a file that stores read: a worker that indexes one has all of it in memory.
MAX_FILE_BYTES = 20 << 20
#: Files of one store. More are a collection for several stores: each retrieval looks at all chunks of one.
MAX_FILES = 200_000
#: Bytes of a path that are kept: longer ones do not fit into PostgreSQL's indexes.
MAX_PATH_BYTES = 1_000
#: Folders within folders. A tree that is deeper is a loop that somebody mounted.
MAX_DEPTH = 100
#: What is opened is never waited for: a pipe without a writer would block for ever.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
#: On Linux: a link for each file that this process has open.
_OPENED = Path("/proc/self/fd")


@dataclass(slots=True)
class SourceScan:
    """What a scan of a source found."""

    files: list[ScannedFile] = field(default_factory=list)
    #: Folders that could not be looked at, a path of "" for all of a source: what is stored of them stays.
    unseen: list[FilePlace] = field(default_factory=list)
    #: What was left out, and why; for people.
    notes: list[str] = field(default_factory=list)

    def is_unreadable(self, place: FilePlace) -> bool:
        return any(
            place.source == folder.source
            and (not folder.path or f"{place.path}/".startswith(f"{folder.path}/"))
            for folder in self.unseen
        )


@dataclass(frozen=True, slots=True)
class FileContents:
    """A file's bytes, with the digest, size and time that show whether they changed."""

    data: bytes
    digest: bytes
    size: int
    modified_ns: int


def scan_source(source: FileSource, root: Path, allowed: Sequence[Path]) -> SourceScan:
    """The files of a source with its endings, unread, in the order of their paths. ``root`` is its path,
    ``allowed`` are the folders that the store may use, all resolved.

    Names that begin with a dot are left out, and folders that are links are not entered.
    """
    scan = SourceScan()
    if not root.is_dir():
        _look_at_file(source, root, allowed, scan)
        return scan
    for path, entry in _entries(source, root, allowed, scan):
        if suffix_of(entry.name) not in source.endings:
            continue
        if len(scan.files) == MAX_FILES:
            scan.notes.append(f"only the first {MAX_FILES:,} files are indexed: make several stores of it")
            scan.unseen.append(FilePlace(source.path, ""))
            break
        if not _can_be_stored(path):
            scan.notes.append(f"{ascii(path)[:200]}: its name is too long, or not in UTF-8")
            continue
        measured = _measure(Path(entry.path), allowed)
        if measured is not None:
            scan.files.append(ScannedFile(FilePlace(source.path, path), *measured))
    scan.files.sort(key=lambda one: one.place)
    return scan


def path_of(root: Path, path: str) -> Path:
    """Where a file of a source is; ``path`` is its place within it."""
    return root if root.name == path and not root.is_dir() else root / path


def read(path: Path, allowed: Sequence[Path]) -> FileContents:
    """A file's bytes.

    Raises:
        FileNotFoundError: there is none any more.
        UnindexableFile: it leads out of the folders, is too large, cannot be read, or changed meanwhile.
    """
    try:
        _check_place(path.resolve(strict=True), allowed)
        handle = os.open(path, _FLAGS)
        try:
            return _read(handle, path, allowed)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError) as error:
        raise UnindexableFile("unreadable", f"it cannot be read: {_reason(error)}") from None


def _check_place(path: Path, allowed: Sequence[Path]) -> None:
    if not is_within(path, allowed):
        raise UnindexableFile(
            "outside", "it leads out of the folders that stores may read (JIYI_STORE_ROOTS)"
        )


def digest_of(path: Path, allowed: Sequence[Path]) -> bytes | None:
    """SHA-256 of a file's bytes; None where it cannot be read."""
    try:
        return read(path, allowed).digest
    except (FileNotFoundError, UnindexableFile):
        return None


def size_and_time(path: Path, allowed: Sequence[Path]) -> tuple[int, int]:
    """What a scan would see of a file: bytes, and nanoseconds since 1970; zeros if it is gone."""
    return _measure(path, allowed) or (0, 0)


def _read(handle: int, path: Path, allowed: Sequence[Path]) -> FileContents:
    _check_place(Path(f"/proc/self/fd/{handle}" if _OPENED.is_dir() else path).resolve(), allowed)
    before = os.fstat(handle)
    if not stat.S_ISREG(before.st_mode):
        raise UnindexableFile("unreadable", "it is no file, but a device, a pipe or a socket")
    if before.st_size > MAX_FILE_BYTES:
        raise UnindexableFile(
            "too_large", f"it has {before.st_size:,} bytes, more than {MAX_FILE_BYTES:,}: split it"
        )
    data = os.read(handle, before.st_size + 1)  # one more shows that it grows
    after = os.fstat(handle)
    if (before.st_size, before.st_mtime_ns) != (len(data), after.st_mtime_ns):
        raise UnindexableFile("unstable", "it changed while it was read; the next scan reads it again")
    return FileContents(data, sha256(data).digest(), after.st_size, after.st_mtime_ns)


def _look_at_file(source: FileSource, root: Path, allowed: Sequence[Path], scan: SourceScan) -> None:
    """A source that is one file. If its folder is gone, too, the disk may only be away."""
    if root.is_file():
        measured = _measure(root, allowed)
        if measured is not None:
            scan.files.append(ScannedFile(FilePlace(source.path, root.name), *measured))
        return
    scan.notes.append(f"{source.path[:200]}: there is no such file or folder")
    if not root.suffix or not root.parent.is_dir():
        scan.unseen.append(FilePlace(source.path, ""))


def _entries(
    source: FileSource, root: Path, allowed: Sequence[Path], scan: SourceScan
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Each file with its path within the source."""
    waiting: list[tuple[str, str, int]] = [(str(root), "", 0)]
    while waiting:
        folder, within, depth = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                present = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            scan.unseen.append(FilePlace(source.path, within))
            scan.notes.append(f"{within or '.'}: the folder cannot be looked at: {_reason(error)}")
            continue
        for entry in present:
            if entry.name.startswith("."):
                continue
            path = f"{within}/{entry.name}" if within else entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield path, entry
            elif source.recursive and depth < MAX_DEPTH and is_within(Path(entry.path), allowed):
                waiting.append((entry.path, path, depth + 1))


def _measure(path: Path, allowed: Sequence[Path]) -> tuple[int, int] | None:
    """Size and time; those of the link if it leads out, which reveal nothing. None: no file."""
    try:
        link = path.is_symlink()
        status = path.lstat() if link and not is_within(path.resolve(), allowed) else path.stat()
    except (OSError, RuntimeError):  # gone meanwhile, or a link to nothing
        return None
    if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
        return status.st_size, status.st_mtime_ns
    return None


def _can_be_stored(path: str) -> bool:
    try:
        return len(path.encode()) <= MAX_PATH_BYTES
    except UnicodeEncodeError:  # bytes that are no UTF-8
        return False


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
