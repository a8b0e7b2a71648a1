"""How much each weight of ``engine.retrieval.relevance`` matters: retrieval quality with each one changed,
the rest as shipped.

    python -m bench.tune LOCOMO.json MEMDAILY.json [CONVERSATION.json …] [--json]

No service: texts are embedded once by the default embedder (kept in ``tune.npz`` below
``$JIYI_BENCH_CACHE``), memories have the times, sessions and subjects that the benchmarks publish, and
everything is ranked by ``engine.retrieval.relevance.hybrid`` alone. Each constant is halved, doubled and
switched off. Figures are recall@10 on LoCoMo (mean over its questions), recall@5 on MemDaily (mean over its
kinds), the share of the questions of ``bench.chat`` with an answer among the first five, and recall@10 on the
conversations, in any form that ``bench.sets`` reads (mean over all questions).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import chat, locomo, memdaily, sets
from bench.support.environments import cache
from bench.support.quality import Agent, Question
from bench.support.ranking import DECIMALS, recall_at
from engine.providers.embedders import embedder_of
from engine.retrieval import corpus as columns
from engine.retrieval import lexicon, relevance
from engine.retrieval import query as sentences
from engine.retrieval.corpus import Corpus, Rows, language_code
from engine.retrieval.query import WeightedMessage, parts_of, texts_of, vector_of, words_of
from engine.retrieval.ranking import best
from engine.retrieval.relevance import Relevance, Words
from engine.text.keywords import query_tokens
from jiyi.client.client import chunks
from jiyi.protocol.retrieval import DialogueMessage
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import Settings
from jiyi.text.words import is_idle, tokens
from models.retrieval.columns import CENTRE_STEPS

LOCOMO_RECALL, MEMDAILY_RECALL, CONVERSATION_RECALL = 10, memdaily.RECALL, 10
EMBEDDER = str(Settings.model_fields["embedder"].default)
EMBED_BATCH = 64
#: When questions without a time of their own are asked: always the same, so that figures repeat.
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass(frozen=True)
class Change:
    """One constant with another value; ``what`` says how it differs from the shipped one."""

    module: ModuleType
    name: str
    what: str
    value: Any

    @property
    def label(self) -> str:
        return f"lexicon.{self.name}" if self.module is lexicon else self.name


def _scaled(name: str, off: tuple[str, Any] = ("off", 0.0), module: ModuleType = relevance) -> list[Change]:
    shipped = getattr(module, name)
    values = {"halved": shipped / 2, "doubled": shipped * 2} | dict([off])
    return [Change(module, name, what, value) for what, value in values.items()]


def _shares(factor: float) -> tuple[float, ...]:
    return tuple(share * factor for share in columns.NEIGHBOUR_SHARES)


def changes() -> list[Change]:
    """What is tried, constant by constant."""
    return [
        Change(relevance, "LEXICAL_SHARE", "less", 0.25),
        Change(relevance, "LEXICAL_SHARE", "more", 0.75),
        Change(relevance, "LEXICAL_SHARE", "off: vectors only", 0.0),
        Change(relevance, "LEXICAL_SHARE", "words only", 1.0),
        *_scaled("LEXICAL_SCALE"),
        Change(relevance, "OTHER_LANGUAGE_SHARE", "as beside words", 1 - relevance.LEXICAL_SHARE),
        Change(relevance, "OTHER_LANGUAGE_SHARE", "more", 1.0),
        *_scaled("LANGUAGE_PRIOR", ("off: own alone", 0.0)),
        *_scaled("HOP_WEIGHT"),
        *_scaled("DESCRIBED_GAIN", ("off", 1.0)),
        Change(relevance, "HOP_FROM", "halved", 1),
        Change(relevance, "HOP_FROM", "doubled", 4),
        Change(relevance, "HOP_LEXICAL_SHARE", "less", 0.5),
        Change(relevance, "HOP_LEXICAL_SHARE", "words only", 1.0),
        Change(columns, "NEIGHBOUR_SHARES", "halved", _shares(0.5)),
        Change(columns, "NEIGHBOUR_SHARES", "doubled", _shares(2)),
        Change(columns, "NEIGHBOUR_SHARES", "off", _shares(0)),
        *_scaled("NEIGHBOUR_FADES", ("off: never fade", math.inf), columns),
        *_scaled("ASSISTANT_PENALTY"),
        *_scaled("SUBJECT_BONUS"),
        *_scaled("DAY_WEIGHT"),
        *_scaled("SENTENCE_WEIGHT"),
        *_scaled("STATEMENT_SHARE", ("off: nothing", 0.0), sentences),
        Change(columns, "FULL_CONTENT", "halved", 2),
        Change(columns, "FULL_CONTENT", "doubled", 8),
        *_scaled("CENTRE_PRIOR", ("off: no centre", math.inf), columns),
        Change(columns, "CENTRE_PRIOR", "the plain mean", 0),
        *_scaled("K1", module=lexicon),
        Change(lexicon, "B", "halved", 0.25),
        Change(lexicon, "B", "doubled", 1.0),
        Change(lexicon, "B", "off", 0.0),
    ]


@contextmanager
def changed(change: Change | None) -> Iterator[None]:
    """Within it the constant has its other value. None changes nothing."""
    if change is None:
        yield
        return
    shipped = getattr(change.module, change.name)
    setattr(change.module, change.name, change.value)
    try:
        yield
    finally:
        setattr(change.module, change.name, shipped)


def _key(embedder: str, kind: str, text: str) -> str:
    return hashlib.sha256(f"{embedder}\n{kind}\n{text}".encode()).hexdigest()


def dialogue_of(question: Question) -> tuple[WeightedMessage, ...]:
    """The messages that are looked for together; none of a question that is no dialogue."""
    parts = parts_of(_messages(question))
    return parts if len(parts) > 1 else ()


def _messages(question: Question) -> list[DialogueMessage]:
    return [DialogueMessage.model_validate(one) for one in question.messages]


def asked_by(question: Question) -> list[str]:
    """The texts whose vectors a question needs."""
    return (
        list(texts_of(_messages(question)))
        if dialogue_of(question)
        else [question.text, *sentences.sentences_of(question.text)]
    )


class TextVectors(Protocol):
    """A vector of each text, as a memory and as a question."""

    def passage(self, text: str) -> Float32: ...

    def query(self, text: str) -> Float32: ...


class Vectors:
    """Vectors by text, from the cache or the embedder; of a dialogue those of its messages."""

    def __init__(self, agents: Sequence[Agent], console: Console, embedder: str = EMBEDDER) -> None:
        self._embedder = embedder
        self._known = self._load()
        asked = [text for agent in agents for question in agent.questions for text in asked_by(question)]
        wanted = {"passage": [memory.text for agent in agents for memory in agent.memories], "query": asked}
        missing = {
            kind: sorted({text for text in texts if _key(embedder, kind, text) not in self._known})
            for kind, texts in wanted.items()
        }
        if any(missing.values()):
            self._embed(missing, console)
            self._save()

    def _missing(self, kind: str, texts: Sequence[str]) -> list[str]:
        return sorted({text for text in texts if _key(self._embedder, kind, text) not in self._known})

    def passage(self, text: str) -> Float32:
        return self._known[_key(self._embedder, "passage", text)]

    def query(self, text: str) -> Float32:
        return self._known[_key(self._embedder, "query", text)]

    def _embed(self, missing: Mapping[str, Sequence[str]], console: Console) -> None:
        engine = embedder_of(self._embedder)
        passages, queries = missing["passage"], missing["query"]
        for batch in track(
            list(chunks(passages, EMBED_BATCH)),
            description=f"embedding {len(passages):,} texts",
            console=console,
        ):
            for text, vector in zip(batch, engine.passages(batch), strict=True):
                self._known[_key(self._embedder, "passage", text)] = vector
        for text in track(queries, description=f"embedding {len(queries):,} questions", console=console):
            self._known[_key(self._embedder, "query", text)] = engine.query(text)

    @staticmethod
    def _load() -> dict[str, Float32]:
        path = _cache_file()
        if not path.exists():
            return {}
        with np.load(path) as stored:
            return dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def _save(self) -> None:
        path = _cache_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.stem}.{os.getpid()}.part.npz")
        np.savez(part, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))
        part.replace(path)


def _cache_file() -> Path:
    return cache() / "tune.npz"


def corpus_of(agent: Agent, vectors: TextVectors) -> Corpus:
    """What the service would make of the agent's memories (``models.retrieval.agent_index``), row by row as
    they are published.
    """
    memories = agent.memories
    table = np.stack([vectors.passage(memory.text) for memory in memories])
    step = max(1, 1 << max(len(memories).bit_length() - CENTRE_STEPS.bit_length(), 0))
    words = lexicon.Lexicon()
    words.extend(" ".join(tokens(memory.text)) for memory in memories)
    codes: dict[str, int] = {}
    return Corpus.of(
        table,
        words,
        languages=[language_code(" ".join(tokens(memory.text))) for memory in memories],
        sessions=[
            codes.setdefault(memory.session_id, len(codes)) if memory.session_id else -1
            for memory in memories
        ],
        created=[memory.occurred_at.timestamp() for memory in memories],
        subjects=[memory.subject for memory in memories],
        trusted=np.arange(len(memories) - len(memories) % step),
    )


def measured(corpus: Corpus, question: Question, vectors: TextVectors) -> tuple[Relevance, Words]:
    """How relevant each memory is, and the words that were looked for."""
    parts, now = dialogue_of(question), question.now or NOW
    if parts:
        texts = texts_of(_messages(question))
        query = vector_of(texts, {text: vectors.query(text) for text in texts})
        return relevance.hybrid(corpus, parts[0].text, query, vectors.query, now, dialogue=parts), words_of(
            parts
        )
    return relevance.hybrid(
        corpus, question.text, vectors.query(question.text), vectors.query, now
    ), query_tokens(question.text)


def best_rows(corpus: Corpus, agent: Agent, found: Relevance, count: int) -> Rows:
    """The best memories by relevance alone; the newest first on ties, as the service has it."""
    newest_first = np.argsort(corpus.created, kind="stable")[::-1]
    allowed = newest_first[[not is_idle(agent.memories[row].text) for row in newest_first]]
    return best(found.total, allowed, count)


def ranked(corpus: Corpus, agent: Agent, question: Question, vectors: TextVectors, count: int) -> list[str]:
    """The keys of the best memories."""
    found, _ = measured(corpus, question, vectors)
    return [agent.memories[row].key for row in best_rows(corpus, agent, found, count)]


def recalls(agents: Sequence[Agent], vectors: Vectors, count: int) -> dict[str, list[float]]:
    """Recall of each question, by kind."""
    found: dict[str, list[float]] = {}
    for agent in agents:
        corpus = corpus_of(agent, vectors)  # anew each time: CENTRE_PRIOR acts here
        for question in agent.questions:
            keys = ranked(corpus, agent, question, vectors, count)
            found.setdefault(question.kind, []).append(recall_at(count, keys, question.evidence))
    return found


def found_in_five(agent: Agent, vectors: Vectors) -> float:
    corpus = corpus_of(agent, vectors)
    found = [
        not question.evidence.isdisjoint(ranked(corpus, agent, question, vectors, chat.FIVE))
        for question in agent.questions
    ]
    return sum(found) / len(found)


def measure(
    talks: Sequence[Agent],
    days: Sequence[Agent],
    small_talk: Agent,
    conversations: Sequence[Agent],
    vectors: Vectors,
) -> dict[str, float]:
    kinds = [sum(values) / len(values) for values in recalls(days, vectors, MEMDAILY_RECALL).values()]
    figures = {
        "locomo": _of_questions(recalls(talks, vectors, LOCOMO_RECALL)),
        "memdaily": sum(kinds) / len(kinds),
        "chat": found_in_five(small_talk, vectors),
    }
    if conversations:
        figures["conversations"] = _of_questions(recalls(conversations, vectors, CONVERSATION_RECALL))
    return {name: round(value, DECIMALS) for name, value in figures.items()}


def _of_questions(recall: Mapping[str, Sequence[float]]) -> float:
    values = [value for of_kind in recall.values() for value in of_kind]
    return sum(values) / len(values)


def run(
    talk_file: Path, day_file: Path, conversation_files: Sequence[Path], console: Console
) -> list[dict[str, Any]]:
    """A row for the shipped constants, then one for each change."""
    talks, days, small_talk = locomo.read(talk_file), memdaily.read(day_file), chat.read()
    conversations = [agent for path in conversation_files for agent in sets.read(path)]
    vectors = Vectors([*talks, *days, small_talk, *conversations], console)
    rows: list[dict[str, Any]] = []
    for change in track([None, *changes()], description="ranking", console=console):
        with changed(change):
            figures = measure(talks, days, small_talk, conversations, vectors)
        if change is None:
            rows.append({"constant": "shipped", "what": "", "value": ""} | figures)
        else:
            rows.append(
                {"constant": change.label, "what": change.what, "value": shown(change.value)} | figures
            )
    return rows


def shown(value: Any) -> str:
    """A constant's value in few characters."""
    if isinstance(value, tuple):
        return ", ".join(f"{item:g}" for item in value)
    return "∞" if value == math.inf else f"{value:g}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("locomo", type=Path)
    parser.add_argument("memdaily", type=Path)
    parser.add_argument("conversations", type=Path, nargs="*")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = run(arguments.locomo, arguments.memdaily, arguments.conversations, Console(stderr=True))
    if arguments.json:
        print(json.dumps(rows))
        return
    table = Table(title="Recall with one constant changed (difference from the shipped ones)")
    for heading in ("constant", "change", "value"):
        table.add_column(heading)
    shipped = rows[0]
    headings = {
        "locomo": f"LoCoMo recall@{LOCOMO_RECALL}",
        "memdaily": f"MemDaily recall@{MEMDAILY_RECALL}",
        "chat": "chat, in five",
        "conversations": f"conversations, recall@{CONVERSATION_RECALL}",
    }
    names = [name for name in headings if name in shipped]
    for name in names:
        table.add_column(headings[name], justify="right")
    for row in rows:
        figures = [f"{row[name]:.3f} ({row[name] - shipped[name]:+.3f})" for name in names]
        table.add_row(row["constant"], row["what"], row["value"], *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
