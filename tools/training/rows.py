"""Labelled rows: ``<judgement>_<writer>.jsonl``, one JSON object a line, from several folders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.appointments.parse import declines
from engine.heads.judgements import FORGET, PRIVATE, is_statement
from jiyi.text.words import language_of

ROOT = Path(__file__).resolve().parents[2]
#: Beside the checkout, and in it.
LABELLED = (ROOT.parent / "shared" / "data" / "labelled", ROOT / "bench" / "labelled")
#: Conversations, none of whose statements are labelled.
CONVERSATIONS = (ROOT.parent / "shared" / "data" / "conversations", ROOT / "bench" / "conversations")
#: Writer of the rows in ``bench/*.jsonl``: they are everyday ones, learned from, and not asked about.
EVERYDAY = "bench"


#: Every how many rows a stranger is taken from, and how much such a pair counts.
STRIDE, STRANGER_WEIGHT = 17, 0.5
#: With how many others of the same person a statement is put together, and how much each pair counts.
BESIDE, BESIDE_WEIGHT = 4, 0.25
#: The same of a message that has nothing to do with the judgement.
ORDINARY_WEIGHT = 0.5
#: Of the messages of conversations every how many is taken, where hardly one has to do with the judgement.
TALK = 4
#: Groups of writers that talk about something else.
GROUPS = 3
#: Labels of ``keeping``: the others of ``acts`` ask nothing of the memory.
KEEPING_LABELS = (PRIVATE, FORGET)
#: Everyday rows are many and alike.
EVERYDAY_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Row:
    """``texts`` are the older and the newer, or what was said before and the text."""

    writer: str
    texts: tuple[str, str]
    label: str
    #: How much it counts in training.
    weight: float = 1.0
    #: Whether a head that was not trained on its writer is asked about it.
    measured: bool = True


def read(
    folders: Sequence[Path], judgement: str, without: Collection[str] = ()
) -> list[tuple[str, dict[str, Any]]]:
    """Each row with its writer, sorted by file, but for the writers ``without``.

    Raises :class:`SystemExit` naming the file and line that cannot be used.
    """
    found = []
    for path in sorted(
        (path for folder in folders for path in folder.glob(f"{judgement}_*.jsonl")),
        key=lambda path: path.name,
    ):
        writer = path.stem.partition("_")[2]
        if writer in without:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                try:
                    found.append((writer, json.loads(line)))
                except json.JSONDecodeError as error:
                    raise SystemExit(
                        f"{path}, line {number}: not JSON ({error}): mend or remove the line"
                    ) from None
    return found


def conversations(without: Collection[str] = (), every: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every so many conversation of ours with its writer, in the order of their files' names, but for the
    writers ``without``.
    """
    paths = sorted(
        (path for folder in CONVERSATIONS for path in folder.glob("conv_*_*.json")),
        key=lambda path: path.name,
    )
    for path in paths[every - 1 :: every]:
        writer = path.stem.split("_")[1]
        if writer not in without:
            yield writer, json.loads(path.read_text(encoding="utf-8"))


def of(folders: Sequence[Path], judgement: str, without: Collection[str] = ()) -> list[Row]:
    """The rows of a judgement of those that have labels of their own, but for the writers ``without``."""
    if judgement in ("facts", "kinds", "attributes"):
        found = _facts(read(folders, "facts", without), judgement)
        return found + (_everyday(judgement) if found and EVERYDAY not in without else [])
    rows = [_row(judgement, writer, one) for writer, one in read(folders, judgement, without)]
    if judgement == "changes":
        return rows + _strangers(rows) + _told_beside(folders, without)
    if judgement == "keeping":
        rows += _acts(folders, without) + _requests(folders, without) + _talk(folders, without)
    if judgement in ("requests", "keeping"):
        rows += _ordinary(folders, without)
    if judgement == "keeping":
        rows = _grouped(rows)
    return rows + (_everyday(judgement) if rows and EVERYDAY not in without else [])


def _strangers(rows: Sequence[Row]) -> list[Row]:
    """Each older statement with a newer one of another row of the writer: unlike those by hand they have
    mostly nothing in common, like most memories that an agent has.
    """
    found = []
    for writer in sorted({row.writer for row in rows}):
        own = [row for row in rows if row.writer == writer]
        for place, row in enumerate(own):
            other = own[(place * STRIDE + STRIDE) % len(own)]
            if other is not row:
                found.append(
                    Row(writer, (row.texts[0], other.texts[1]), "unrelated", STRANGER_WEIGHT, measured=False)
                )
    return found


def _told_beside(folders: Sequence[Path], without: Collection[str]) -> list[Row]:
    """Statements of one person that have nothing to do with each other: of different attributes, or of
    different sessions.

    A new memory meets some forty older ones, hardly one of which it takes back. A head that has seen rows by
    hand alone, which are all near to each other, takes one in eight such pairs for a change.
    """
    found = []
    for writer, told in _told(folders, without):
        older = [one for one in told if one.lasts]
        for place, newer in enumerate(told):
            others = [older[(place + step * STRIDE) % len(older)] for step in range(1, BESIDE + 1)]
            texts = {
                other.text: None
                for other in others
                if other.about != newer.about and other.text != newer.text
            }
            found += [
                Row(writer, (text, newer.text), "unrelated", BESIDE_WEIGHT, measured=newer.by_hand)
                for text in texts
            ]
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    """A statement, what it belongs to (by hand an attribute, in a conversation a session), and whether it may
    be remembered.
    """

    text: str
    about: object
    lasts: bool = True
    by_hand: bool = True


def _told(folders: Sequence[Path], without: Collection[str]) -> list[tuple[str, list[_Told]]]:
    """What each person tells: a writer in rows by hand, in each language; somebody in a conversation."""
    told: dict[tuple[str, ...], list[_Told]] = {}
    for writer, one in read(folders, "facts", without):
        lasts = bool(one["lasting"] and one["attribute"])
        about = one["attribute"] if lasts else one["text"]
        told.setdefault((writer, language_of(one["text"])), []).append(_Told(one["text"], about, lasts))
    for judgement, name in (("satisfaction", "messages"), ("requests", "text")):
        for writer, one in read(folders, judgement, without):
            text = one[name] if name == "text" else one[name][-1]
            told.setdefault((writer, language_of(text)), []).append(_Told(text, text, lasts=False))
    for writer, conversation in conversations(without):
        for session in conversation["sessions"]:
            for turn in session["turns"]:
                speaker = (writer, conversation["id"], turn["speaker"])
                told.setdefault(speaker, []).append(_Told(turn["text"], session["id"], by_hand=False))
    short = {key: [one for one in some if is_statement(one.text)] for key, some in told.items()}
    return [(key[0], some) for key, some in short.items() if sum(one.lasts for one in some) > STRIDE]


def _ordinary(folders: Sequence[Path], without: Collection[str]) -> list[Row]:
    """What people say of themselves and of the agent's work, and what they ask of its memory, as messages
    that ask for no appointment: most messages are of that kind, and those of ``requests`` by hand are all
    about times.
    """
    said = [(writer, one["text"]) for writer, one in read(folders, "facts", without) if one["lasting"]]
    said += [(writer, one["messages"][-1]) for writer, one in read(folders, "satisfaction", without)]
    said += [(writer, question) for writer, question in _questions() if writer not in without]
    return [Row(writer, ("", text), "none", ORDINARY_WEIGHT) for writer, text in said]


def _acts(folders: Sequence[Path], without: Collection[str]) -> list[Row]:
    """What messages do to what was said before: most ask nothing of the memory."""
    rows = [_row("acts", writer, one) for writer, one in read(folders, "acts", without)]
    return [row if row.label in KEEPING_LABELS else replace(row, label="none") for row in rows]


def _grouped(rows: Sequence[Row]) -> list[Row]:
    """Those who only talk are measured in :data:`GROUPS` groups: to train one head without each would take an
    hour.
    """
    writers = {row.writer for row in rows}
    others = sorted(writers - {row.writer for row in rows if row.label in KEEPING_LABELS})
    group = {writer: f"talk {place % GROUPS}" for place, writer in enumerate(others)}
    return [replace(row, writer=group.get(row.writer, row.writer)) for row in rows]


def _requests(folders: Sequence[Path], without: Collection[str]) -> list[Row]:
    """Orders to the agent's appointments, which are cancelled and deleted in the words in which memories are
    forgotten.
    """
    return [Row(writer, ("", one["text"]), "none") for writer, one in read(folders, "requests", without)]


def _talk(folders: Sequence[Path], without: Collection[str]) -> list[Row]:
    """Every :data:`TALK`-th message of conversations and of rows that are about something else."""
    said = [
        (writer, text)
        for writer, one in read(folders, "endings", without)
        for text in (*one["before"], one["text"])
    ]
    for writer, conversation in conversations(without):
        said += [(writer, turn["text"]) for session in conversation["sessions"] for turn in session["turns"]]
    return [Row(writer, ("", text), "none", ORDINARY_WEIGHT) for writer, text in dict.fromkeys(said[::TALK])]


def _questions() -> list[tuple[str, str]]:
    """Questions about what was said before, each with its writer."""
    asked = [(EVERYDAY, one["text"]) for one in _lines("intents")]
    conversations = [(EVERYDAY, ROOT / "bench" / "chat.json")]
    conversations += [
        (path.stem.split("_")[1], path)
        for path in sorted((ROOT / "bench" / "conversations").glob("conv_*_*.json"))
    ]
    for writer, path in conversations:
        asked += [
            (writer, one["question"]) for one in json.loads(path.read_text(encoding="utf-8"))["questions"]
        ]
    return asked


def _row(judgement: str, writer: str, one: dict[str, Any]) -> Row:
    match judgement:
        case "changes":
            return Row(writer, (one["older"], one["newer"]), one["label"])
        case "satisfaction":
            return Row(
                writer,
                (one["messages"][-2] if len(one["messages"]) > 1 else "", one["messages"][-1]),
                one["expect"],
            )
        case _:
            return Row(writer, ("", one["text"]), one["label"])


def _facts(given: Sequence[tuple[str, dict[str, Any]]], judgement: str) -> list[Row]:
    made = [
        (Row(writer, (one["before"] or "", one["text"]), "lasting" if one["lasting"] else "passing"), one)
        for writer, one in given
    ]
    if judgement == "facts":
        return [row for row, _ in made]
    field = judgement.removesuffix("s")
    return [replace(row, label=one[field]) for row, one in made if one["lasting"] and one[field]]


def _everyday(judgement: str) -> list[Row]:
    match judgement:
        case "satisfaction":
            given = _lines("satisfaction")
            return [replace(_row(judgement, EVERYDAY, one), measured=False) for one in given]
        case "requests":
            return [
                Row(
                    EVERYDAY,
                    ("", one["text"]),
                    "none" if one["expect"]["kind"] == "none" else "new",
                    EVERYDAY_WEIGHT,
                    measured=False,
                )
                for one in _lines("schedule")
                # Who declines a reminder schedules nothing, which is all that these labels tell: it may be a
                # cancellation.
                if one["expect"]["kind"] != "none" or not declines(one["text"])
            ]
        case "facts":
            return [row for one in _lines("extraction") for row in _turns(one)]
        case _:
            return []


def _turns(conversation: dict[str, Any]) -> list[Row]:
    messages = conversation["messages"]
    lasting = {fact["turn"] for fact in conversation["facts"]}
    labels = dict.fromkeys(lasting, "lasting") | {
        turn: "passing" for turn in conversation["nothing"] if turn not in lasting
    }
    found = []
    for turn, label in sorted(labels.items()):
        before = messages[turn - 1]["text"] if turn and messages[turn - 1]["role"] == "assistant" else ""
        if messages[turn]["role"] == "user":
            found.append(
                Row(EVERYDAY, (before, messages[turn]["text"]), label, EVERYDAY_WEIGHT, measured=False)
            )
    return found


def _lines(name: str) -> list[dict[str, Any]]:
    path = ROOT / "bench" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def digest(rows: dict[str, list[Row]]) -> str:
    """SHA-256 of everything that is learned from."""
    said = json.dumps(
        [
            [name, *([row.writer, *row.texts, row.label] for row in some)]
            for name, some in sorted(rows.items())
        ]
    )
    return hashlib.sha256(said.encode()).hexdigest()
