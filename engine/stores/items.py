"""What a store keeps of a text: what counts of it, its summary and metadata, and one vector however long it
is; and how well each item answers a question: by meaning and words, or by either alone.

The relevance is that of memories (:mod:`engine.retrieval.relevance`). A chunk gains from its file: a question
is often answered where one paragraph names the thing and another describes it. ``bench.stores`` has measured
the weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Literal

import numpy as np

from engine.retrieval.corpus import Corpus, Rows, dense, language_code
from engine.retrieval.lexicon import Lexicon
from engine.retrieval.ranking import MIN_NORM, Floats
from engine.retrieval.relevance import hybrid, names_day
from engine.text.keywords import query_tokens
from jiyi.protocol.base import JsonObject
from jiyi.protocol.stores import Snapshot
from jiyi.protocol.wire.vectors import Float32
from jiyi.stores.snapshots import PREVIEW_CHARS, Attached
from jiyi.stores.types import MAX_CONTENT_LENGTH, ChunkStrategy, EmbeddingParams
from jiyi.text.splitting import sentences

#: A summary with its labels of fewer characters says nothing.
LEAST_SUMMARY = 20


def summary_of(inputs: str, output: str) -> str:
    """What an item is found by: what counts of the input and of the output, with a label each."""
    return f"Input: {inputs}\nOutput: {output}"


def without_labels(summary: str) -> str:
    """What a summary says, for what compares texts: its labels are in every one."""
    first, _, second = summary.partition("\nOutput: ")
    if not first.startswith("Input:"):
        return summary
    return "\n".join(part for part in (first.removeprefix("Input:").strip(), second.strip()) if part)


def noted_text(inputs_text: str, source: Snapshot | None, output: Snapshot | None) -> str:
    """What a blackboard notes: the output, else the input, else the text of the inputs."""
    texts = (output.text if output else "", source.text if source else "", inputs_text)
    return next((text.strip() for text in texts if text.strip()), "")


def metadata_of(
    role: str, inputs_text: str, attached: Sequence[Attached], content_length: int | None = None
) -> JsonObject:
    """Who said it, the beginning of what went in, what was attached."""
    length = {} if content_length is None else {"content_length": content_length}
    notes = [one.note.model_dump(exclude={"data"}) for one in attached]
    return {"agent_role": role, "input_preview": inputs_text[:PREVIEW_CHARS], **length, "attachments": notes}


#: A text of at most so many characters is kept whole.
SHORT = 100
#: What follows a text that was cut.
CUT = "..."
#: Characters of a text that are looked at: more than the longest that may count.
LOOKED_AT = 40_000

#: Instructions, each up to its comma or sentence end. The article is required: "You are right," is none.
_PREFIX = re.compile(
    r"[ \t\n]{0,10}(?:(?:Agent|Model) Role:[^\n]{0,300}\n[ \t]{0,10}\n"
    r"|You are (?:an?|the) [^,，.。!！?？\n]{0,200}[,，.。!！]"
    r"|(?:The )?[Uu]ser will input [^,，.。!！?？\n]{0,200}[,，.。!！]"
    r"|You need to [^,，.。!！?？\n]{0,200}[,，.。!！]"
    r"|你是一[位个名][^,，。！？\n]{0,200}[,，。！]"
    r"|用户(?:将|会)输入[^,，。！？\n]{0,200}[,，。！]"
    r"|你需要[^,，。！？\n]{0,200}[,，。！])"
)
#: Prefixes after each other, at most.
MAX_PREFIXES = 5


def key_content(text: str, max_length: int = MAX_CONTENT_LENGTH) -> str:
    """What counts of a text, of a question as of what is stored: at most ``max_length`` characters and
    perhaps a mark that it was cut.

    Instructions to an agent ("You are a poet, …") say nothing of what to look for: they are left out at the
    beginning of a long text.
    """
    text = text[:LOOKED_AT]
    if len(collapsed := " ".join(text.split())) <= SHORT:
        return collapsed
    start = 0
    for _ in range(MAX_PREFIXES):
        prefix = _PREFIX.match(text, start)
        if prefix is None:
            break
        start = prefix.end()
    rest = " ".join(text[start:].split()) or collapsed
    return _cut(rest, max_length)


def _cut(text: str, most: int) -> str:
    """The beginning of a text that is too long, whole sentences if the first ones fill half of the room."""
    if len(text) <= most:
        return text
    end = 0
    for sentence in sentences(text[: most + 1]):
        after = text.find(sentence, end) + len(sentence)
        if after > most:
            break
        end = after
    return text[:end] if end >= most // 2 else f"{text[:most].rstrip()}{CUT}"


#: Headers that the original puts before what comes from other nodes: ``=== INPUT FROM research (user) ===``.
_HEADER = re.compile(r"^={3,10} ?INPUT FROM [^\n=]{1,200}={3,10}[ \t]{0,20}$", re.MULTILINE | re.IGNORECASE)


def without_headers(text: str) -> str:
    """What was said, without where it came from."""
    return _HEADER.sub("", text).strip()


#: Pieces of one text that are embedded; what follows counts no more.
MAX_PIECES = 64


def pieces(text: str, params: EmbeddingParams) -> list[str]:
    """What of a text is embedded: its beginning, or pieces of half of ``max_length`` each."""
    if not params.use_chunking or len(text) <= params.max_length:
        return [text[: params.max_length]]
    size = params.max_length // 2
    most = 1 if params.chunk_strategy == "first" else MAX_PIECES
    return [text[start : start + size] for start in range(0, min(len(text), size * most), size)]


def combine(vectors: Float32, strategy: ChunkStrategy) -> Float32:
    """The vector of a text from those of its pieces, of length 1 again."""
    if strategy == "first":
        vectors = vectors[:1]
    weights = [1 / (place + 1) if strategy == "weighted" else 1 for place in range(len(vectors))]
    joined = np.average(vectors, axis=0, weights=weights)
    length = float(np.linalg.norm(joined))
    if not np.isfinite(length) or length == 0:
        raise ValueError("the pieces' vectors add up to nothing")
    result: Float32 = (joined / length).astype(np.float32)
    return result


def embed(
    texts: Sequence[str], params: EmbeddingParams, passages: Callable[[Sequence[str]], Float32]
) -> Float32:
    """A vector for each text, all pieces in one call."""
    parts = [pieces(text, params) for text in texts]
    vectors = passages(list(chain.from_iterable(parts)))
    by_text = np.split(vectors, np.cumsum([len(cut) for cut in parts])[:-1])
    return np.stack([combine(of_text, params.chunk_strategy) for of_text in by_text])


def model_name(model: str, params: EmbeddingParams) -> str:
    """The name that goes with vectors: texts cut in other ways have other vectors."""
    if not params.use_chunking:
        return model
    return f"{model}+{params.chunk_strategy}{params.max_length}"


Search = Literal["hybrid", "dense", "lexical"]

#: What a chunk gains if its whole file says all that the question asks, in standard scores of cosine.
FILE_WORDS = 1.0
#: Share of the scores of the chunks right before and after in the same file.
NEXT_CHUNKS = 0.2
#: Standard scores that a chunk gains when the question names its file's day, beside those of any memory.
FILE_DAY = 1.0


@dataclass(frozen=True, slots=True)
class StoreCorpus:
    """The items of a store as columns."""

    corpus: Corpus
    #: Of chunks: row → number of its file, from 0, those of a file beside each other in their order; and the
    #: words of each file by its number. None: the items are no chunks of files.
    files: tuple[Rows, Lexicon] | None

    @classmethod
    def of(
        cls,
        vectors: Float32,
        tokens: Sequence[str],
        created: Sequence[float],
        files: Sequence[int] | None = None,
    ) -> StoreCorpus:
        """Of items in order.

        Args:
            vectors: ``(n, d)``; a row of zeros where a vector is pending.
            tokens: each item's tokens, with spaces between.
            created: when each was said, epoch seconds; of a chunk the day that its file is about, 0 where it
            has none.
            files: of chunks each one's file, numbered from 0 in order.
        """
        lexicon, languages = Lexicon(texts=tokens), [language_code(text) for text in tokens]
        corpus = Corpus.of(vectors, lexicon, languages, range(len(tokens)), created, [None] * len(tokens))
        if files is None:
            return cls(corpus, None)
        whole: list[list[str]] = [[] for _ in range(max(files, default=-1) + 1)]
        for number, text in zip(files, tokens, strict=True):
            whole[number].append(text)
        return cls(corpus, (np.array(files, dtype=np.intp), Lexicon(texts=map(" ".join, whole))))


@dataclass(frozen=True, slots=True)
class ItemScores:
    """By row: what items are ranked by, and what it is made of."""

    total: Floats
    #: None: there was no vector to search with.
    cosine: Floats | None
    lexical: Floats


def score(
    store: StoreCorpus,
    text: str,
    query: Float32 | None,
    embed: Callable[[str], Float32] | None,
    now: datetime,
    search: Search = "hybrid",
) -> ItemScores:
    """The scores of every item for a question; without its vector, words alone count.

    Args:
        store: what is searched.
        text: the question.
        query: its vector; None while the embedder is away.
        embed: gives the vectors of the question's sentences; None leaves sentences out.
        now: what "yesterday" is measured from.
        search: ``dense`` ranks by the cosine alone, as the original does, ``lexical`` by BM25 alone.
    """
    corpus = store.corpus
    words = query_tokens(text)
    lexical = corpus.lexicon.bm25(words)
    cosine = None if query is None else dense(corpus, query)
    if search != "hybrid":
        total = lexical if search == "lexical" or cosine is None else cosine
        return ItemScores(total, cosine, lexical)
    total = hybrid(corpus, text, query, embed, now, with_neighbours=False).total
    if store.files is not None:
        numbers, lexicon = store.files
        share = lexicon.bm25(words) / max(lexicon.information(words), MIN_NORM)
        total = total + FILE_WORDS * share[numbers] + FILE_DAY * names_day(corpus, text, now)
        total = total + NEXT_CHUNKS * _beside(total, numbers)
    return ItemScores(total, cosine, lexical)


def best(store: StoreCorpus, scores: ItemScores, top_k: int, threshold: float) -> Rows:
    """The best rows, best first; equal ones in their order.

    The threshold is on the cosine, as in the original. Above -1, a chunk without a vector is not among them,
    unless there was none to search with. What is no chunk of a file and has no vector is found by its words,
    or not at all, whatever the threshold.
    """
    eligible = np.ones(scores.total.size, dtype=bool)
    if scores.cosine is not None and threshold > -1:
        eligible = scores.cosine >= threshold
    if store.files is None:
        compared = store.corpus.has_vector & (scores.cosine is not None)
        eligible = np.where(compared, eligible, scores.lexical > 0)
    rows = np.flatnonzero(eligible)
    ranked = rows[np.argsort(-scores.total[rows], kind="stable")]
    return np.asarray(ranked[:top_k], dtype=np.intp)


def _beside(values: Floats, files: Rows) -> Floats:
    """The sum of the values above 0 right before and after each row in the same file."""
    gains = np.maximum(values, 0)
    beside = np.zeros_like(values)
    same = files[1:] == files[:-1]
    beside[1:][same] += gains[:-1][same]
    beside[:-1][same] += gains[1:][same]
    return beside
