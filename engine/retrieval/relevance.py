"""How relevant each memory of an agent is to a question: dense and lexical, and what stands around it (design
§7).

Cosine counts in standard scores over the agent's memories of one language, BM25 as the share of what the
question asks that a memory says: one rare word found by chance in one memory alone must not count as much as
the whole question. On top of their weighted sum come

* a **query expansion**: memories that say what the best ones found so far add to the question, or what
  they leave open. It answers "where does the person with this phone number work?" when one memory has the
  number and another the work;
* **neighbours**: a share of the scores of what was said right before and after, fading with the time between;
  a turn that says nothing ("ok ok", 嗯嗯) neither gains nor gives, and who changes the subject with every
  turn
  lends little;
* what the question **names**: a memory's subject; days, the more the fewer memories are of them;
* less for what an **assistant replied**, unless the question asks for it.

A memory in another language than the question shares no words with it, whatever it says: there the vector
speaks for the words, too.

A question of two or three sentences is also scored sentence by sentence; each memory counts with its best
one. A longer text is looked for as a whole, and so is a dialogue, whose messages count by their place in it
(:mod:`engine.retrieval.query`).

A score says which memory comes first. How likely one is to answer (:func:`probabilities`) is a logistic model
of five measures, fitted on questions whose evidence is known (docs/benchmarks.md), each with vectors of a
matrix that had not seen its writer; a weight says what one unit of a measure adds to the log of the odds.
All arrays are over the rows of a :class:`Corpus`. ``bench/tune.py`` has the weights' sensitivity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from engine.providers.embedder_specs import ADAPTED_MODELS
from engine.retrieval.corpus import LANGUAGE_PRIOR, Corpus, Counted, Rows, dense, language_code
from engine.retrieval.lexicon import Lexicon
from engine.retrieval.query import WeightedMessage, best_of, describes, marked_sentences, weights_of, words_of
from engine.retrieval.ranking import MIN_NORM, Floats, deviation, length_of, mean, quotient
from engine.text.keywords import query_tokens
from engine.times.past import Span, named_spans, spans_over
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import RelevanceMode
from jiyi.text.words import normalise

#: Share of words in the sum with cosine.
LEXICAL_SHARE = 0.35
#: Standard scores of cosine that a memory is worth which says all that the question asks, word for word.
LEXICAL_SCALE = 6.0
#: The information of a question's words, the sum of their rarities, counts up to this: about fifteen rare
#: words. No memory says all of a dialogue, and what says fifteen of its words says enough.
MOST_INFORMATION = 80.0
#: Standard scores of cosine that a memory has on average which says all that the question asks: those of one
#: that has no vector yet, or none that can be compared, by the root of the share that it says
#: (over 131,000 pairs of a question and a turn: .7 for .03, .9 for .14, 2.2 for .37).
COSINE_OF_WORDS = 3.5
#: What cosine counts in the sum for a memory in another language than the question: more than beside words,
#: less than all.
OTHER_LANGUAGE_SHARE = 0.75
#: Weight of the query expansion, how many of the best memories it starts from, and the share of words in it:
#: names, mostly.
HOP_WEIGHT = 0.12
HOP_FROM = 2
HOP_LEXICAL_SHARE = 0.75
#: Multiplier for the query expansion if the query describes a person instead of naming them: one memory
#: names them, another has the answer.
DESCRIBED_GAIN = 3.0
#: Share of common words, of either's, from which on two memories say the same: nobody goes on from a turn to
#: what was extracted from it. Looked for among those whose centred cosine is so high.
SAME, NEAR = 0.75, 0.8
#: The query expansion is worked out for this many of the best memories; for the rest of a large agent it is
#: nothing.
HOP_POOL = 1_000
#: Standard scores that what an assistant said loses: advice, and echoes of what was said to it. Not if the
#: question asks for "you".
ASSISTANT_PENALTY = 1.0
ASSISTANTS = ("assistant", "ai", "bot", "chatbot", "助手", "助理", "ai助手", "智能助手")
#: Standard scores that a memory gains when the question names its subject.
SUBJECT_BONUS = 0.3
#: Standard scores for each nat of information from the days that the question names: among a year's memories
#: a day has 5.9, a month 2.5, and the year nothing.
DAY_WEIGHT = 1.0
#: Most nats from days that are not surely over: "today" is when somebody asks, more often than what they ask
#: about.
MOST_OF_TODAY = 1.0
#: Weight of the best single sentence beside the whole question: two questions in one both want an answer.
SENTENCE_WEIGHT = 4.0
#: Subjects are looked up by runs of up to this many words, or characters of Chinese.
MAX_SUBJECT_WORDS = 4
MAX_SUBJECT_CHARS = 8

#: The words that are looked for; of a dialogue with what each counts.
Words = Sequence[str] | Mapping[str, float]

_ADDRESSED = re.compile(r"\b(?:you|your|yours)\b|[你您]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Relevance:
    """``total`` and what it is made of; dense and lexical as measured, the rest in standard scores.

    ``total`` is also reduced by :func:`penalty`.
    """

    total: Floats
    dense: Floats | None
    lexical: Floats | None
    second_hop: Floats | None
    neighbours: Floats | None
    named: Floats | None


def measure(
    corpus: Corpus,
    kind: RelevanceMode,
    text: str,
    words: Words,
    query: Float32 | None,
    embed: Callable[[str], Float32] | None,
    now: datetime,
    *,
    dialogue: Sequence[WeightedMessage] = (),
    with_neighbours: bool = True,
) -> tuple[Relevance, Floats | None]:
    """Relevance of every row, measured as ``kind`` says, and their cosines with the question, None without
    ``query``.

    ``words`` are those of the question, or of the dialogue; the rest is as in :func:`hybrid`, which also
    stands in for a ``dense`` relevance without a vector.
    """
    if kind == "lexical":
        lexical = corpus.lexicon.bm25(words)
        return Relevance(lexical, None, lexical, None, None, None), (
            None if query is None else dense(corpus, query)
        )
    if kind == "dense" and query is not None:
        cosine = dense(corpus, query)
        return Relevance(cosine, cosine, None, None, None, None), cosine
    measured = hybrid(
        corpus, text, query, embed, now, words=words, dialogue=dialogue, with_neighbours=with_neighbours
    )
    return measured, measured.dense


def hybrid(
    corpus: Corpus,
    text: str,
    query: Float32 | None,
    embed: Callable[[str], Float32] | None,
    now: datetime,
    *,
    words: Words | None = None,
    dialogue: Sequence[WeightedMessage] = (),
    with_neighbours: bool = True,
) -> Relevance:
    """Relevance of every row to a question.

    Args:
        corpus: the agent's memories.
        text: the question, or the leading message of a dialogue.
        query: its vector, ``(d,)``; None: only words count.
        embed: gives the vectors of the question's sentences; None leaves sentences out.
        now: what "yesterday" is measured from.
        words: those of the question, or of the dialogue, if they are known.
        dialogue: the messages that are looked for together, of which ``query`` is the vector.
        with_neighbours: whether what was said right before and after counts.
    """
    whole_dense = None if query is None else dense(corpus, query)
    if words is None:
        words = words_of(dialogue) if dialogue else query_tokens(text)
    whole_lexical = corpus.lexicon.bm25(words)
    score, hop = _scored(corpus, whole_dense, query, whole_lexical, words)
    hop *= _hop_gain(text)
    name_scores, less = (
        _weighted_name_score(corpus, dialogue or (WeightedMessage(text, 1.0),), now),
        penalty(corpus, text),
    )
    alone, score = score, score + hop
    sentences = marked_sentences(text) if not dialogue and (query is None or embed is not None) else ()
    if len(sentences) > 1:
        parts, hops = zip(
            *(_sentence(corpus, sentence.text, None if query is None else embed) for sentence in sentences),
            strict=True,
        )
        weights, names = (
            weights_of(sentences),
            [_name_score(corpus, sentence.text, now) for sentence in sentences],
        )
        alone = alone + SENTENCE_WEIGHT * best_of(np.array(parts), weights)
        score = score + SENTENCE_WEIGHT * (
            best_of(np.array(parts) + np.array(hops) + np.array(names), weights) - less
        )
    # What stands around a memory is what it is about, not where it leads: the query expansion is nobody's
    # neighbour.
    near = neighbours(corpus, alone) if with_neighbours else np.zeros(len(corpus))
    total = score + near
    total += name_scores
    total -= less
    return Relevance(total, whole_dense, whole_lexical, hop, near, name_scores)


def standard(values: Floats, counted: Counted = None) -> Floats:
    """Standard scores, by what is usual among those that are ``counted``; all equal gives 0."""
    if not values.size:
        return values
    if counted is not None and not counted.any():
        counted = None
    apart: Floats = values - mean(values if counted is None else values[counted])
    spread = deviation(apart if counted is None else apart[counted])
    if spread < MIN_NORM:
        return np.zeros_like(values)
    apart /= spread
    return apart


def standard_within(values: Floats, groups: NDArray[np.int8], counted: Counted = None) -> Floats:
    """Standard scores within each group; of a small group, shrunk towards those over all.

    Embeddings of one language lie closer together than those of one meaning do: compared with others of their
    own language, memories that answer stand out in each.
    """
    if np.count_nonzero(np.bincount(groups if counted is None else groups[counted])) <= 1:
        return standard(values, counted)
    usual = values if counted is None else values[counted]
    mean, variance = usual.mean(), usual.var()
    scores = np.zeros_like(values)
    for code in np.flatnonzero(np.bincount(groups)).tolist():
        rows = groups == code
        mine = values[rows if counted is None else rows & counted]
        count = mine.size
        centre = (mine.sum() + LANGUAGE_PRIOR * mean) / (count + LANGUAGE_PRIOR)
        spread = (np.square(mine - centre).sum() + LANGUAGE_PRIOR * variance) / (count + LANGUAGE_PRIOR)
        if spread > MIN_NORM**2:
            scores[rows] = (values[rows] - centre) / np.sqrt(spread)
    return scores


def neighbours(corpus: Corpus, score: Floats) -> Floats:
    """What each row gains from those right before and after it in its session; never less than nothing."""
    gains = np.maximum(score, 0)
    return np.asarray(np.einsum("ij,ij->i", corpus.shares, gains[corpus.near]), dtype=np.float64)


def penalty(corpus: Corpus, text: str) -> Floats:
    """What replies of an assistant lose, unless the question asks for them."""
    weight = 0.0 if _ADDRESSED.search(text) is not None else ASSISTANT_PENALTY
    codes = [corpus.subject_codes[name] for name in ASSISTANTS if name in corpus.subject_codes]
    return corpus.cached(
        ("penalty", weight), lambda: weight * np.isin(corpus.subjects, codes).astype(np.float64)
    )


def _weighted_name_score(corpus: Corpus, parts: Sequence[WeightedMessage], now: datetime) -> Floats:
    """What each row gains by the names and days of the part that gives it most."""
    gains = [_name_score(corpus, part.text, now) for part in parts]
    if len(gains) == 1:
        return gains[0]
    return np.asarray(
        np.max([part.weight * gain for part, gain in zip(parts, gains, strict=True)], axis=0),
        dtype=np.float64,
    )


def _name_score(corpus: Corpus, text: str, now: datetime) -> Floats:
    subjects, days = _subjects_in(corpus, text), spans_over(text, now)
    if not subjects and not days:
        return corpus.cached("nothing named", lambda: np.zeros(len(corpus)))
    return SUBJECT_BONUS * np.isin(corpus.subjects, subjects).astype(
        np.float64
    ) + DAY_WEIGHT * _date_information(corpus, days)


def _subjects_in(corpus: Corpus, text: str) -> list[int]:
    codes = corpus.subject_codes
    return sorted(
        {codes[name] for name in _possible_names(normalise(text)) if name in codes} if codes else ()
    )


def names_day(corpus: Corpus, text: str, now: datetime) -> Floats:
    """1 for rows from a day, month or year that the question names, else 0."""
    in_span = np.zeros(len(corpus), dtype=bool)
    for span in named_spans(text, now):
        in_span |= _within(corpus, span)
    return in_span.astype(np.float64)


def _date_information(corpus: Corpus, days: Mapping[Span, bool]) -> Floats:
    """Information of each row's date, in nats: the fewer memories are of the named days, the more."""
    scores = np.zeros(len(corpus))
    for span, over in days.items():
        within = _within(corpus, span)
        nats = np.log(
            (corpus.of_counted(within).size + 1) / (np.count_nonzero(corpus.of_counted(within)) + 1)
        )
        scores[within] = np.maximum(scores[within], nats if over else min(nats, MOST_OF_TODAY))
    return scores


def _within(corpus: Corpus, span: Span) -> NDArray[np.bool_]:
    start, end = span
    return (corpus.created >= start.timestamp()) & (corpus.created < end.timestamp())


def _scored(
    corpus: Corpus, cosine: Floats | None, query: Float32 | None, lexical: Floats, words: Words
) -> tuple[Floats, Floats]:
    """The weighted sum without query expansion, and the score of the expansion alone."""
    most = information(corpus, words)
    by_words = LEXICAL_SCALE * lexical / most
    first = by_words
    if cosine is not None and query is not None:
        by_meaning = _dense_score(corpus, cosine, query, lexical / most)
        first = _dense_share(corpus, language_code(" ".join(words))) * by_meaning + LEXICAL_SHARE * by_words
    return first, HOP_WEIGHT * _second_hop(
        corpus, first, words, lexical / most, with_vectors=query is not None
    )


def information(corpus: Corpus, words: Words) -> float:
    """The information of a question's words: the BM25 of a memory that says enough of them."""
    return float(np.clip(corpus.lexicon.information(words), MIN_NORM, MOST_INFORMATION))


def _dense_share(corpus: Corpus, language: int) -> Floats:
    """What cosine counts in the sum, beside words of the question's language."""
    shares = 1 - LEXICAL_SHARE, OTHER_LANGUAGE_SHARE
    return corpus.cached(
        ("dense share", language, shares), lambda: np.where(corpus.languages == language, *shares)
    )


def _dense_score(corpus: Corpus, cosine: Floats, query: Float32, coverage: Floats) -> Floats:
    """Standard scores of the cosines; without a vector what the share of the question that is ``coverage``
    suggests.
    """
    centred = _centred(corpus, cosine, query)
    if not corpus.all_have_vectors:
        has, scores = corpus.has_vector, COSINE_OF_WORDS * np.sqrt(coverage)
        scores[has] = standard_within(
            centred[has], corpus.languages[has], None if corpus.counted is None else corpus.counted[has]
        )
        return scores
    return standard_within(centred, corpus.languages, corpus.counted)


def _sentence(corpus: Corpus, sentence: str, embed: Callable[[str], Float32] | None) -> tuple[Floats, Floats]:
    query = None if embed is None else embed(sentence)
    cosine = None if query is None else dense(corpus, query)
    words = query_tokens(sentence)
    lexical = corpus.lexicon.bm25(words)
    first, hop = _scored(corpus, cosine, query, lexical, words)
    return first, hop * _hop_gain(sentence)


def _hop_gain(text: str) -> float:
    return DESCRIBED_GAIN if describes(text) else 1.0


def _centred(corpus: Corpus, cosine: Floats, query: Float32) -> Floats:
    """Cosine after the common direction is taken away, worked out from what is known already."""
    unit = query / np.float32(max(length_of(query), MIN_NORM))
    across = float(unit @ corpus.centre)
    square = float(corpus.centre @ corpus.centre)
    scale = corpus.centred_lengths * length_of(unit - corpus.centre)
    centred = cosine - corpus.centre_dots
    centred -= across
    centred += square
    centred = quotient(centred, scale)
    if not corpus.all_have_vectors:
        centred[~corpus.has_vector] = 0
    return centred


def _second_hop(
    corpus: Corpus, first: Floats, words: Words, coverage: Floats, *, with_vectors: bool
) -> Floats:
    """How well each of the better memories goes on from the best ones, in standard scores; the best counts
    most.

    By words: what one of the best adds to the question, and what of the question it leaves open. What is
    answered already leaves little to go on to; ``coverage`` is how much of the question each memory says,
    from 0 to 1. A memory does not go on from itself, nor from what says the same: they get as much as the one
    that does so best.
    """
    everyone = len(corpus) <= HOP_POOL
    counted = corpus.counted
    leading = first if counted is None else np.where(counted, first, -np.inf)
    pool = np.arange(len(corpus)) if everyone else _highest(leading, HOP_POOL, corpus.created)
    start = _highest(leading, HOP_FROM, corpus.created) if everyone else pool[:HOP_FROM]
    start = start if counted is None else start[counted[start]]
    onward = np.zeros(pool.size, dtype=np.float64)
    by_vector = _centred_similarity(corpus, start, pool) if with_vectors else None
    for place, row in enumerate(start.tolist()):
        others = np.ones(pool.size, dtype=bool)
        others[row if everyone else place] = False
        if by_vector is not None:
            near = np.flatnonzero(others & (by_vector[place] >= NEAR))
            for at in near.tolist():
                others[at] = not _says_same(corpus.lexicon, row, int(pool[at]))
        usual = None if counted is None else counted[pool][others]
        by_words = _goes_on(corpus.lexicon, row, words, slice(None) if everyone else pool)
        goes_on = standard(by_words[others], usual)
        if by_vector is not None:
            by_meaning = standard(by_vector[place][others], usual)
            goes_on = (1 - HOP_LEXICAL_SHARE) * by_meaning + HOP_LEXICAL_SHARE * goes_on
        gained = standard(goes_on, usual) * max(0.0, 1 - float(coverage[row])) / (place + 1)
        onward[others] += gained
        onward[~others] += (gained if usual is None else gained[usual]).max(initial=0)
    if everyone:
        return onward
    hop = np.zeros(len(corpus), dtype=np.float64)
    hop[pool] = onward
    return hop


def _says_same(lexicon: Lexicon, row: int, other: int) -> bool:
    """Whether two texts consist of the same words, but for a few."""
    first, second = set(lexicon.text(row)), set(lexicon.text(other))
    return len(first & second) >= SAME * max(len(first), len(second))


def _goes_on(lexicon: Lexicon, row: int, words: Words, pool: Rows | slice) -> Floats:
    """BM25 of what the row adds to the question, and of what it leaves open of it; twice the lesser for
    both.
    """
    text = lexicon.text(row)
    query_words, text_words = set(words), set(text)
    added = lexicon.bm25([token for token in text if token not in query_words])[pool]
    remaining = lexicon.bm25([token for token in words if token not in text_words])[pool]
    both: Floats = np.minimum(added, remaining)
    return added + remaining + 2 * both


def _centred_similarity(corpus: Corpus, start: Rows, pool: Rows) -> Floats:
    """Centred cosine of each of ``start`` with each of ``pool``: ``(len(start), len(pool))``; 0 without a
    vector.
    """
    whole = pool.size == len(corpus)  # a copy takes longer than the rest
    columns = corpus.vectors, corpus.lengths, corpus.centre_dots, corpus.centred_lengths
    vectors, lengths, dots, centred_lengths = (column if whole else column[pool] for column in columns)
    # The larger matrix first is a fifth faster. A product for each of the few would be faster still, but does
    # not always give equal vectors equal cosines.
    products = (vectors @ corpus.vectors[start].T).T.copy()
    centred = quotient(products, corpus.lengths[start, None] * lengths)
    centred -= dots
    centred -= corpus.centre_dots[start, None]
    centred += float(corpus.centre @ corpus.centre)
    centred = quotient(centred, corpus.centred_lengths[start, None] * centred_lengths)
    if not corpus.all_have_vectors:
        centred[:, lengths <= MIN_NORM] = 0
        centred[corpus.lengths[start] <= MIN_NORM] = 0
    return centred


def _highest(values: Floats, count: int, created: Floats) -> Rows:
    """Positions of the ``count`` highest values, highest first; what happened earlier on ties."""
    pool: Rows = np.arange(values.size)
    if values.size > count:  # a partition takes any of those that are equal to the lowest
        pool = np.flatnonzero(values >= np.partition(values, values.size - count)[values.size - count])
    ranked = pool[np.argsort(-values[pool], kind="stable")]
    if (values[ranked[1:]] == values[ranked[:-1]]).any():
        ranked = pool[np.lexsort((created[pool], -values[pool]))]
    return ranked[:count]


def _possible_names(text: str) -> set[str]:
    # Also without the Chinese around them: in Anna和王小明 there is an Anna.
    kinds = [
        re.findall(rf"[^\W_{apart}]+(?:['’._-][^\W_{apart}]+)*", text) for apart in ("", "\u3400-\u9fff")
    ]
    names = {
        " ".join(words[i : i + n])
        for words in kinds
        for n in range(1, MAX_SUBJECT_WORDS + 1)
        for i in range(len(words) - n + 1)
    }
    possessives = {name.removesuffix("'s").removesuffix("’s") for name in names}
    runs = re.findall(r"[\u3400-\u9fff·]+", text)
    characters = {
        run[i : i + n]
        for run in runs
        for n in range(2, MAX_SUBJECT_CHARS + 1)
        for i in range(len(run) - n + 1)
    }
    return names | possessives | characters


#: What is measured of each memory, in this order: its cosine with the question; the share of what the
#: question asks that it says; how many standard deviations its relevance is behind the best one's; how many
#: the best one's is above the agent's mean; and the logarithm of how many memories there are, because among
#: many memories more look similar.
MEASURES = ("cosine", "said", "behind", "best", "memories")
#: Weights of the measures and the constant. Cosines of one model say nothing about another's, so those that
#: are not listed go without.
WEIGHTS: Mapping[str, tuple[float, ...]] = {
    ADAPTED_MODELS["m2"]: (3.480, 1.417, -1.123, 0.718, -0.492, -1.796)
}
WITHOUT_COSINE = (0.0, 2.173, -1.304, 0.822, -0.519, -0.826)


def measures(corpus: Corpus, relevance: Relevance, words: Words, rows: Rows) -> Floats:
    """The measures of some rows, ``(len(rows), len(MEASURES))``; a cosine that is not known counts as 0."""
    total, usual = relevance.total, corpus.of_counted(relevance.total)
    spread = max(float(deviation(usual - mean(usual))), MIN_NORM)
    best = float(usual.max())
    zeros = np.zeros(rows.size)
    columns = (
        zeros if relevance.dense is None else relevance.dense[rows],
        zeros if relevance.lexical is None else relevance.lexical[rows] / information(corpus, words),
        (best - total[rows]) / spread,
        zeros + (best - float(mean(usual))) / spread,
        zeros + np.log(usual.size),
    )
    return np.stack(columns, axis=1)


def probabilities(corpus: Corpus, relevance: Relevance, words: Words, rows: Rows, model: str) -> Floats:
    """Of some rows, the probability that each answers, 0 … 1, ``(len(rows),)``.

    Args:
        corpus: the agent's memories, at least one.
        relevance: what :func:`hybrid` made of the question.
        words: its tokens.
        rows: whose probability is wanted.
        model: what embedded question and memories.
    """
    weights = WITHOUT_COSINE if relevance.dense is None else WEIGHTS.get(model, WITHOUT_COSINE)
    odds = measures(corpus, relevance, words, rows) @ np.array(weights[:-1]) + weights[-1]
    if relevance.dense is not None:  # what has no vector is judged by the rest
        without = ~corpus.has_vector[rows]
        if without.any():
            rest = measures(corpus, relevance, words, rows[without])
            odds[without] = rest @ np.array(WITHOUT_COSINE[:-1]) + WITHOUT_COSINE[-1]
    return np.asarray(1 / (1 + np.exp(-odds)), dtype=np.float64)
