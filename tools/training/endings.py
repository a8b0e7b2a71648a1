"""The head of endings: of the parts of earlier messages that structure lets a newer one end, which hold no
longer.

Learned from rows ``endings_<writer>.jsonl`` (``{id, language, before, text, ended}``: earlier messages of a
user, a newer one, and the exact parts of the earlier ones that it ends), from lives
(``truth_<writer>.jsonl``, see :mod:`bench.truth`), and from conversations, in which hardly anything ends:
they are what most messages are. It reads what the heads of changes and facts say, so it is trained last.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.conversations.endings import EndingCandidate, TimedMessage, candidates
from engine.heads.judgements import ENDED, HOLDS, LIKELY, Heads
from engine.heads.model import Head, Inputs, Probabilities, stacked
from tools.training.fitting import Shape, calibration, fit, least_probability, left_out
from tools.training.rows import ROOT, conversations, read

#: Lives, beside the checkout.
LIVES = ROOT.parent / "shared" / "data" / "truth"
#: Kinds of lives in which something ends, or seems to.
ENDING_KINDS = {
    "part-ends",
    "unrelated-news",
    "replaced",
    "correction",
    "flip",
    "lists",
    "who",
    "indirect need",
    "when",
}
#: How often a part that is marked should be over: the default first.
PRECISIONS = (0.85, 0.75, 0.9, 0.95)
#: Of a hundred messages of ordinary conversations so many have no part of an earlier one marked: the default
#: first.
LEFT_ALONE = (0.99, 0.995, 0.98)
#: Earlier messages of a conversation that a newer one is held against, in turn: as many as the service does,
#: and as there are at first.
EARLIER = (40, 5)
#: 1 / ridge, and the least spread of a feature.
STRENGTH, LEAST_SPREAD = 0.5, 1e-3
#: Of how many conversations one is read.
EVERY = 3
#: How much a turn of a conversation counts: a few of them do end something.
TALK_WEIGHT = 0.7
DECIMALS = 3


@dataclass(frozen=True, slots=True)
class Example:
    """A candidate of a writer's; ``over`` whether it holds no longer."""

    writer: str
    candidate: EndingCandidate
    over: bool
    weight: float = 1.0
    #: The message of an ordinary conversation that the candidate is of; empty for rows and lives.
    talk: str = ""


def messages_of_conversations(without: Collection[str] = ()) -> int:
    """How many messages there are in the conversations that ``examples`` reads."""
    sessions = [session for _, said in conversations(without, EVERY) for session in said["sessions"]]
    return sum(len(session["turns"]) for session in sessions)


def examples(folders: Sequence[Path], heads: Heads, without: Collection[str] = ()) -> list[Example]:
    return [*_by_hand(folders, heads, without), *_lived(heads, without), *_talked(heads, without)]


def _by_hand(folders: Sequence[Path], heads: Heads, without: Collection[str]) -> Iterator[Example]:
    for writer, row in read(folders, "endings", without):
        before = [TimedMessage(text, session=str(number)) for number, text in enumerate(row["before"])]
        for one in candidates(before, TimedMessage(row["text"], session="now"), heads):
            part = before[one.old].text[slice(*one.span)]
            yield Example(writer, one, any(_says(part, ended) for ended in row["ended"]))


def _says(part: str, ended: str) -> bool:
    """Whether a part is what was marked by hand, or most of it."""
    return part in ended or ended in part


def _lived(heads: Heads, without: Collection[str]) -> Iterator[Example]:
    for path in sorted(LIVES.glob("truth_*.jsonl")) if LIVES.is_dir() else ():
        writer = path.stem.partition("_")[2]
        for line in path.read_text(encoding="utf-8").splitlines() if writer not in without else ():
            life = json.loads(line)
            if life["kind"] in ENDING_KINDS:
                yield from _of_life(writer, life, heads)


def _of_life(writer: str, life: dict[str, Any], heads: Heads) -> Iterator[Example]:
    stale = [text.lower() for question in life["questions"] for text in question["not"]]
    holding = [text.lower() for question in life["questions"] for group in question["has"] for text in group]
    for user in {turn.get("user") for turn in life["turns"]}:
        before: list[TimedMessage] = []
        for turn in life["turns"]:
            if turn["role"] != "user" or turn.get("user") != user:
                continue
            said = TimedMessage(turn["text"], session=turn.get("session"))
            for one in candidates(before, said, heads):
                part = before[one.old].text[slice(*one.span)].lower()
                over, holds = any(text in part for text in stale), any(text in part for text in holding)
                if over != holds:  # of what no question is about nobody has said
                    yield Example(writer, one, over)
            before.append(said)


def _talked(heads: Heads, without: Collection[str]) -> Iterator[Example]:
    for writer, conversation in conversations(without, EVERY):
        before: dict[str, list[TimedMessage]] = {}
        for session in conversation["sessions"]:
            for number, turn in enumerate(session["turns"]):
                own, said = (
                    before.setdefault(turn["speaker"], []),
                    TimedMessage(turn["text"], session=session["id"]),
                )
                for one in candidates(own[-EARLIER[number % len(EARLIER)] :], said, heads):
                    yield Example(writer, one, False, TALK_WEIGHT, f"{writer} {session['id']} {number}")
                own.append(said)


def train(given: Sequence[Example], messages: int) -> tuple[Head, dict[str, Any]]:
    """The head of all examples, and figures of writers left out in turn; ``messages``: how many the
    conversations have.
    """
    dense = stacked([one.candidate.features for one in given])
    rows = Inputs(dense, [()] * len(given))
    labels = np.array([ENDED if one.over else HOLDS for one in given])
    writers, counts = (
        np.array([one.writer for one in given]),
        np.array([one.weight for one in given], dtype=np.float32),
    )
    spread = np.maximum(dense.std(axis=0), LEAST_SPREAD)
    shape = Shape(tuple((1, float(1 / one)) for one in spread), 1.0, STRENGTH)
    classes = sorted({ENDED, HOLDS})
    answers, _ = left_out(rows, labels, counts, writers, sorted(set(writers.tolist())), shape)
    calibrated = calibration(answers, labels, classes)
    chance, true = calibrated.of(answers)[:, classes.index(ENDED)], labels == ENDED
    thresholds = {wanted: round(least_probability(chance, true, wanted), DECIMALS) for wanted in PRECISIONS}
    likely = {share: round(_leaving_alone(given, chance, messages, share), DECIMALS) for share in LEFT_ALONE}
    fitted = calibrated.folded(fit(rows, labels, counts, shape))
    labelled = np.array([not one.talk for one in given])
    figures = {
        "rows": len(given),
        "ended": int(true.sum()),
        "messages": messages,
        ENDED: {str(wanted): _at(chance >= least, true) for wanted, least in thresholds.items()},
        LIKELY: {
            str(share): _at((chance >= least)[labelled], true[labelled]) for share, least in likely.items()
        },
    }
    return replace(fitted, thresholds={ENDED: thresholds, LIKELY: likely}), figures


def _leaving_alone(given: Sequence[Example], chance: Probabilities, messages: int, share: float) -> float:
    """The least probability by which this share of the messages of conversations leaves everything as it
    is.
    """
    surest: dict[str, float] = {}
    for one, probability in zip(given, chance.tolist(), strict=True):
        if one.talk:
            surest[one.talk] = max(surest.get(one.talk, 0.0), probability)
    allowed = int((1 - share) * messages)
    return float(np.nextafter(sorted(surest.values(), reverse=True)[allowed], 2))


def _at(taken: Any, right: Any) -> dict[str, float]:
    return {"precision": _share(right[taken]), "recall": _share(taken[right])}


def _share(of: Iterable[Any]) -> float:
    values = list(of)
    return round(float(np.mean(values)), DECIMALS) if values else 0.0
