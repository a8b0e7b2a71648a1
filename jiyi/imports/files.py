"""Files of other services, read piece by piece: what one piece takes of memory is bounded, whatever the file
says of itself.

And OpenClaw's memory: Markdown that the agent writes (``MEMORY.md``, ``memory/2026-03-02.md``), and its
sessions as JSON lines.
"""

from __future__ import annotations

import codecs
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

from jiyi.errors import JiyiError
from jiyi.imports.conversations import turn
from jiyi.imports.drafts import Draft, Drafts, LeftOut, mapping, text_of, text_or_none
from jiyi.protocol.base import JsonObject

#: Characters of one piece: a conversation, a memory, a whole agent file.
MAX_PIECE_CHARS = 64 * 1024 * 1024
#: Bytes of one line, and of a Markdown file.
MAX_LINE_BYTES, MAX_TEXT_BYTES = 16 * 1024 * 1024, 4 * 1024 * 1024
#: Entries of an archive, files of a folder; times by which an entry of more than ``SMALL_BYTES`` may grow:
#: JSON in words grows tenfold.
MAX_ENTRIES, MAX_GROWTH, SMALL_BYTES = 100_000, 100, 16 * 1024 * 1024
#: Characters read at a time.
CHUNK = 1024 * 1024
_SPACE = re.compile(r"\s*")
_CONVERSATIONS = re.compile(r"(?:^|/)conversations(?:-\d+)?\.json$")
_DECODER = json.JSONDecoder()
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Unreadable(JiyiError, ValueError):  # noqa: N818 – its name says what happened
    """A file that cannot be read on: one sentence with its name, what is wrong, and what to do."""

    code = "file"


class Text:
    """A JSON text that is read on demand."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name
        self._decode: Callable[[bytes, bool], str] = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._buffer, self._at, self._ended, self._has_begun = "", 0, False, False

    def next_character(self) -> str:
        """The next character that is no white space, which is not taken yet; empty at the end."""
        while True:
            self._at = _SPACE.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more(CHUNK):
                return ""

    def take(self, expected: str) -> str:
        """The next character, which must be one of those."""
        character = self.next_character()
        if not character or character not in expected:
            stands = f"{character!r} stands where one of {expected!r} is expected"
            what = stands if character else "it ends too early"
            raise Unreadable(f"{self._name}: no whole JSON: {what}; export it again")
        self._at += 1
        return character

    def value(self) -> Any:
        """The next value, whole."""
        self.next_character()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except RecursionError:
                raise Unreadable(f"{self._name}: nested too deep to be an export") from None
            except ValueError as error:
                if not self._more(len(self._buffer) - self._at):
                    raise Unreadable(
                        f"{self._name}: no whole JSON ({getattr(error, 'msg', error)}); export it again"
                    ) from None
                continue
            if end == len(self._buffer) and self._more(CHUNK):  # a number may go on
                continue
            self._at = end
            return value

    def _more(self, count: int) -> bool:
        """Read on; False at the end. What has been taken is let go."""
        if self._ended:
            return False
        self._buffer, self._at = self._buffer[self._at :], 0
        if len(self._buffer) > MAX_PIECE_CHARS:
            raise Unreadable(
                f"{self._name}: a piece of it has more than {MAX_PIECE_CHARS:,} characters, which no"
                " conversation has"
            )
        try:
            read = self._stream.read(max(count, CHUNK))
            if not self._has_begun:
                self._has_begun = True
                if read.startswith(_UTF16):
                    raise Unreadable(f"{self._name}: is UTF-16; save it as UTF-8")
                if b"\x00" in read[:CHUNK]:
                    raise Unreadable(
                        f"{self._name}: is no text but binary; give the export as it was downloaded"
                    )
            self._buffer += self._decode(read, not read)
        except UnicodeDecodeError as error:
            raise Unreadable(f"{self._name}: is no UTF-8 ({error.reason}); save it as UTF-8") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise Unreadable(f"{self._name}: cannot be unpacked: {error}; download it again") from None
        self._ended = not read
        return True


class JsonPiece(NamedTuple):
    """A part of a file, its field (None: the file is a list), and whether there are several in that field."""

    value: Any
    field: str | None = None
    in_list: bool = True


def pieces(stream: IO[bytes], name: str) -> Iterator[JsonPiece]:
    """The values of a list one by one; of an object its fields, those of a list one by one.

    Raises:
        Unreadable: it is no JSON, or a piece of it is too large; the pieces before were given.
    """
    text = Text(stream, name)
    if (first := text.next_character()) == "[":
        for value in _elements(text):
            yield JsonPiece(value)
    elif first == "{":
        yield from _fields(text, name)
    elif first:
        raise Unreadable(
            f"{name}: is no JSON: it begins with {first!r}; give the export as it was downloaded"
        )
    else:
        raise Unreadable(f"{name}: is empty")
    if text.next_character():
        raise Unreadable(f"{name}: no whole JSON: something follows its end; export it again")


def _fields(text: Text, name: str) -> Iterator[JsonPiece]:
    text.take("{")
    while text.next_character() != "}":
        field = text.value()
        if not isinstance(field, str):
            raise Unreadable(f"{name}: no whole JSON: a field has no name; export it again")
        text.take(":")
        if text.next_character() == "[":
            for value in _elements(text):
                yield JsonPiece(value, field)
        else:
            yield JsonPiece(text.value(), field, in_list=False)
        if text.next_character() != "}":
            text.take(",")
    text.take("}")


def _elements(text: Text) -> Iterator[Any]:
    text.take("[")
    while text.next_character() != "]":
        yield text.value()
        if text.next_character() != "]":
            text.take(",")
    text.take("]")


def whole(stream: IO[bytes], name: str) -> Any:
    """The file's one value."""
    text = Text(stream, name)
    if not text.next_character():
        raise Unreadable(f"{name}: is empty")
    return text.value()


def lines(stream: IO[bytes], name: str) -> Iterator[tuple[int, Any]]:
    """The value of each line that has one, with the line's number; of a line that is no JSON a
    :class:`LeftOut`.

    Raises:
        Unreadable: a line is longer than any event.
    """
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise Unreadable(
                f"{name}: line {number} has more than {MAX_LINE_BYTES:,} bytes; is this a file of JSON lines?"
            )
        if not line.strip():
            continue
        try:
            yield number, json.loads(line.removeprefix(codecs.BOM_UTF8))
        except (ValueError, RecursionError) as error:
            yield number, LeftOut(f"line {number}", "malformed", f"no JSON: {error}"[:100])


def conversations(path: Path) -> Iterator[Any]:
    """The conversations of an export: its zip, its folder, or ``conversations.json`` itself."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if _CONVERSATIONS.search(file.name))
        if not files:
            raise Unreadable(f"{path}: has no conversations.json; give the export as it was downloaded")
        for file in files:
            yield from conversations(file)
        return
    if not zipfile.is_zipfile(path):
        with path.open("rb") as stream:
            yield from _objects(stream, str(path), ("conversations",))
        return
    with _archive(path) as archive:
        names = [entry for entry in archive.infolist() if _CONVERSATIONS.search(entry.filename)]
        if not names:
            raise Unreadable(f"{path}: has no conversations.json in it; give the export as it was downloaded")
        for entry in sorted(names, key=lambda entry: entry.filename):
            name = f"{path}/{entry.filename}"
            if entry.flag_bits & 1:
                raise Unreadable(f"{name}: is encrypted; unpack it first")
            if entry.file_size > max(SMALL_BYTES, entry.compress_size * MAX_GROWTH):
                grows = f"would grow more than {MAX_GROWTH} times when it is unpacked"
                raise Unreadable(f"{name}: {grows}, which no export does")
            try:
                unpacked = archive.open(entry)
            except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
                raise Unreadable(f"{name}: cannot be unpacked: {error}; download it again") from None
            with unpacked:
                yield from _objects(unpacked, name, ("conversations",))


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise Unreadable(f"{path}: cannot be unpacked: {error}; download it again") from None
    with archive:
        if len(archive.infolist()) > MAX_ENTRIES:
            raise Unreadable(f"{path}: has more than {MAX_ENTRIES:,} files in it, which no export has")
        yield archive


def objects(path: Path, *fields: str) -> Iterator[Any]:
    """A file's objects: of its list, of a list in these fields, one a line (``.jsonl``), or the only one."""
    name = str(path)
    with path.open("rb") as stream:
        if path.suffix in (".jsonl", ".ndjson"):
            yield from (value for _, value in lines(stream, name))
        else:
            yield from _objects(stream, name, fields)


def _objects(stream: IO[bytes], name: str, fields: Sequence[str]) -> Iterator[Any]:
    has_list, single = False, dict[str, Any]()
    for piece in pieces(stream, name):
        if piece.field is None or (piece.in_list and piece.field in fields):
            has_list = True
            yield piece.value
        elif not has_list:
            if stream.tell() > MAX_PIECE_CHARS:
                raise Unreadable(f"{name}: one object of more than {MAX_PIECE_CHARS:,} bytes; give a list")
            if piece.in_list:
                single.setdefault(piece.field, []).append(piece.value)
            else:
                single[piece.field] = piece.value
    if not has_list and single:
        yield single


def agent_file(path: Path) -> Any:
    """A whole agent file."""
    with path.open("rb") as stream:
        return whole(stream, str(path))


def workspace(root: Path) -> Drafts:
    """What an OpenClaw agent wrote: its workspace, or ``~/.openclaw`` with workspace and sessions."""
    if not root.is_dir():
        raise Unreadable(f"{root}: is no folder; give OpenClaw's workspace, or ~/.openclaw")
    homes = [root, root / "workspace"]
    notes = [home / name for home in homes for name in ("MEMORY.md", "USER.md")]
    notes += [note for home in homes for note in sorted((home / "memory").glob("*.md"))]
    folders = [root / "sessions", *sorted(root.glob("agents/*/sessions"))]
    sessions = [file for folder in folders for file in sorted(folder.glob("*.jsonl"))]
    home = root.resolve()
    files = [file for file in (*notes, *sessions) if file.is_file()]
    inside = [file for file in files if file.resolve().is_relative_to(home)]
    if not inside:
        raise Unreadable(f"{root}: has neither MEMORY.md, nor memory/*.md, nor sessions/*.jsonl")
    if len(inside) > MAX_ENTRIES:
        raise Unreadable(f"{root}: has more than {MAX_ENTRIES:,} files")
    for file in inside:
        if file.suffix == ".md":
            yield from _note(root, file)
        else:
            yield from _session(file)


def _note(root: Path, file: Path) -> Drafts:
    name = file.relative_to(root).as_posix().removeprefix("workspace/")
    with file.open("rb") as stream:
        read = stream.read(MAX_TEXT_BYTES + 1)
    if len(read) > MAX_TEXT_BYTES:
        yield LeftOut(name, "too long", f"more than {MAX_TEXT_BYTES:,} bytes")
        return
    try:
        text = read.decode("utf-8-sig")
    except UnicodeDecodeError:
        yield LeftOut(name, "malformed", "no UTF-8: save it as UTF-8")
        return
    yield from markdown(name, text, datetime.fromtimestamp(file.stat().st_mtime, UTC))


def _session(file: Path) -> Drafts:
    session = file.stem
    with file.open("rb") as stream:
        for number, value in lines(stream, str(file)):
            if isinstance(value, LeftOut):
                yield value
            elif (session_id := session_start(value)) is not None:
                session = session_id
            else:
                yield from session_line(session, number, value)


_DATE = re.compile(r"(?:^|/)(\d{4}-\d{2}-\d{2})[^/]*\.md$")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
MAX_HEADING_CHARS = 200


def markdown(path: str, text: str, changed_at: datetime) -> Drafts:
    """The entries of one file: each item of a list with what is below it, each paragraph.

    Args:
        path: within the workspace, with slashes. A day in its name is the time of its entries.
        text: what stands in it.
        changed_at: the file's own time, for a file without a day.
    """
    day = _DATE.search(path)
    try:
        at = datetime.strptime(day[1], "%Y-%m-%d").replace(tzinfo=UTC) if day else changed_at
    except ValueError as error:
        yield LeftOut(path, "bad time", str(error))
        return
    counts: Counter[str] = Counter()
    for heading, entry in entries(text):
        digest = sha256(f"{heading}\n{entry}".encode(errors="surrogatepass")).hexdigest()[:32]
        counts[digest] += 1
        # Entries have no ids: their words are, and how often they stood there before.
        key = (path, digest if counts[digest] == 1 else f"{digest} {counts[digest]}")
        about: JsonObject = {"file": path}
        if heading:
            about["heading"] = heading[:MAX_HEADING_CHARS]
        found_by = f"{heading}: {entry}" if heading else None
        yield Draft(key=key, text=entry, at=at, found_by=found_by, provenance=about)


def entries(text: str) -> Iterator[tuple[str, str]]:
    """The heading that each entry stands below (empty: none), and its words."""
    heading, lines, fenced = "", list[str](), False

    def finish_entry() -> Iterator[tuple[str, str]]:
        entry = "\n".join(lines).strip()
        lines.clear()
        if entry:
            yield heading, entry

    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if fenced:
            lines.append(line)
        elif match := _HEADING.match(line):
            yield from finish_entry()
            heading = match[1]
        elif not line.strip():
            yield from finish_entry()
        elif match := _ITEM.match(line):
            yield from finish_entry()
            lines.append(line[match.end() :])
        else:
            lines.append(line)
    yield from finish_entry()


def session_line(session: str, number: int, value: Any) -> Drafts:
    """A line of a session's file; only messages are imported."""
    line = mapping(value)
    if line.get("type") != "message":
        return
    message = mapping(line.get("message"))
    key = (session, text_or_none(line.get("id")) or f"line {number}")
    text = text_of(message.get("content"))
    if not text.strip():
        yield LeftOut(" ".join(key), "no text", "a call of a tool, or thoughts")
        return
    yield turn(key, message.get("role"), text, line.get("timestamp") or message.get("timestamp"))


def session_start(value: Any) -> str | None:
    """The session's own id, if this is its first line."""
    line = mapping(value)
    return text_or_none(line.get("id")) if line.get("type") == "session" else None
