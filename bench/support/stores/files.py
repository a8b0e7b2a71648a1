"""Quality of the store of files: LoCoMo's sessions as Markdown files, are the chunks found that answer a
question?

A conversation is a store, a session one ``.md`` of its date and its turns. A turn is found by a hit that says
at least half of it; a file is found if it is among the first five different ones. The files are indexed and
searched by the service's own code, in this process, with the default embedder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.locomo import description, turn_ids
from bench.support.ranking import Figures, mean
from engine.stores.items import Search
from jiyi.protocol.stores import RetrieveItems
from jiyi.text.splitting import split
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from models.queue import pending_work
from models.stores import rows
from models.stores.backends import INDEX, SCAN
from models.stores.items import EMBED_ITEMS
from models.stores.rows import StoreRecord
from workers import ephemeral

GROUP = "bench"
SEARCHES: tuple[Search, ...] = ("hybrid", "dense", "lexical")
EVIDENCE_AT, FILES_AT = (3, 5, 10), 5
#: Hits asked for: enough to see five different files.
TOP_K = 200
QUIET = Console(stderr=True)

#: A file, and the number of a chunk in it.
Chunk = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A store's files, and its questions."""

    name: str
    #: Name → text.
    files: Mapping[str, str]
    #: Turn → its file, and where it stands there.
    turns: Mapping[str, tuple[str, int, int]]
    #: Each question with the turns that answer it.
    questions: Sequence[tuple[str, set[str]]]


def conversation(entry: Mapping[str, Any], number: int) -> Conversation:
    """One of LoCoMo's, as files."""
    told = entry["conversation"]
    files: dict[str, str] = {}
    turns: dict[str, tuple[str, int, int]] = {}
    for session in sorted(int(name[8:]) for name in told if re.fullmatch(r"session_\d+", name)):
        name = f"session_{session}.md"
        text = f"# {told[f'session_{session}_date_time']}\n\n"
        for turn in told[f"session_{session}"]:
            said = description(turn)
            turns[turn_ids(turn["dia_id"])[0]] = (name, len(text), len(text) + len(said))
            text += f"{said}\n\n"
        files[name] = text
    asked = (
        (row["question"], {key for told in row.get("evidence", ()) for key in turn_ids(told)} & turns.keys())
        for row in entry["qa"]
    )
    return Conversation(
        f"conversation-{number}",
        files,
        turns,
        [(question, evidence) for question, evidence in asked if evidence],
    )


def said_by(one: Conversation) -> dict[Chunk, set[str]]:
    """The turns of which each chunk, by file and number, says at least half."""
    found: dict[Chunk, set[str]] = {}
    for name, text in one.files.items():
        for number, piece in enumerate(split(text)):
            found[name, number] = {
                key
                for key, (file, start, end) in one.turns.items()
                if file == name and 2 * (min(piece.end, end) - max(piece.start, start)) >= end - start
            }
    return found


def figures(
    ranked: Sequence[Chunk], evidence: set[str], one: Conversation, says: Mapping[Chunk, set[str]]
) -> Figures:
    """Of one question: the share of its evidence, and of its files, that is found."""
    found = {most: set[str]().union(*(says[chunk] for chunk in ranked[:most])) for most in EVIDENCE_AT}
    made = {f"evidence@{most}": len(evidence & turns) / len(evidence) for most, turns in found.items()}
    wanted = {one.turns[key][0] for key in evidence}
    files = list(dict.fromkeys(name for name, _ in ranked))[:FILES_AT]
    return made | {f"file@{FILES_AT}": len(wanted.intersection(files)) / len(wanted)}


def do_owed() -> None:
    """All that is owed for stores of files, in this process."""
    from tasks.framework.work import run_until_idle
    from tasks.stores.index_files import index_file, scan_files
    from tasks.stores.search import embed_items

    for kind, handler in ((SCAN, scan_files), (INDEX, index_file), (EMBED_ITEMS, embed_items)):
        run_until_idle(kind, handler, limit=1_000_000)


def declare(name: str, folder: Path) -> StoreRecord:
    """A store of a folder's files, whose scan is owed."""
    with unit_of_work() as connection:
        store_id, _ = rows.declare(
            connection, GROUP, "", name, "file", {"file_sources": [{"path": str(folder)}]}
        )
        pending_work.enqueue(connection, SCAN, [(store_id, GROUP)])
        return rows.need(connection, GROUP, name)


def run(path: Path, limit: int | None = None, console: Console = QUIET) -> dict[str, Figures]:
    """Means over all questions, for each way to search."""
    read = [
        conversation(entry, number)
        for number, entry in enumerate(json.loads(path.read_text(encoding="utf-8"))[:limit])
    ]
    with ephemeral.folder("jiyi-bench-") as home:
        folder = home / "files"
        with ephemeral.database(home, store_roots=str(folder)), whole_service():
            rows_of: dict[Search, list[Figures]] = {search: [] for search in SEARCHES}
            for one in track(read, description="conversations", console=console):
                place = folder / one.name
                place.mkdir(parents=True)
                for name, text in one.files.items():
                    (place / name).write_text(text, encoding="utf-8")
                declare(one.name, place)
                do_owed()
                for search, found in _answers(one):
                    rows_of[search].append(found)
    return {search: mean(found) for search, found in rows_of.items()}


def _answers(one: Conversation) -> Iterator[tuple[Search, Figures]]:
    from tasks.stores.search import search as searched

    says = said_by(one)
    with unit_of_work() as connection:
        store = rows.need(connection, GROUP, one.name)
    with for_groups(GROUP):
        for question, evidence in one.questions:
            for search in SEARCHES:
                found = searched(
                    store, RetrieveItems(name=one.name, query=question, top_k=TOP_K, search=search)
                )
                ranked = [
                    (str(hit.item.metadata["file_path"]), int(hit.item.metadata["chunk_index"]))
                    for hit in found.hits
                ]
                yield search, figures(ranked, evidence, one, says)
