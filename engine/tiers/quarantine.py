"""Which outputs become working memory: five filters in order, the first that refuses decides. Nothing is
refused for what is not known: a missing confidence, vector or verdict passes, and the flags say so.

What a promotion stores: pieces, each known by its content. A piece's id follows from its group and content:
promoting again, after a failure or by another hand, meets the same ids, and changes nothing.

What a group's quarantine is about: clusters of entries that say similar things, for the people who promote.
The same entries give the same clusters, in whatever order they come; similar by their vectors where all have
one, else by their words. Clusters are stars (Butina 1999): the entry with the most entries like it, and
these; then the same with what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from engine.providers.embedder_specs import thresholds_of
from engine.retrieval.corpus import MAX_READ, SIMILAR_BY_WORDS, language_code, similarity_by_words
from engine.retrieval.ranking import MIN_NORM, Floats
from engine.text.keywords import keywords_ranked
from jiyi.protocol.knowledge import (
    CHECKED,
    CONSISTENT,
    REFUTED,
    RUNAWAY,
    UNSCORED,
    UNVERIFIED,
    VERIFIED,
    VERIFY_PENDING,
)
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.splitting import OVERLAP, SIZE, split
from jiyi.text.translatable import Translatable
from jiyi.text.words import content_digest

Reason = Literal[
    "low_confidence",
    "too_short",
    "duplicate",
    "near_duplicate",
    "inconsistent",
    "claim_refuted",
    "claim_pending",
    "runaway",
]
Consistency = Literal["consistent", "inconsistent", "unknown"]

#: What one Chinese, Japanese or Korean character says, in Latin ones: 20 are a statement like 50.
CJK_WEIGHT = 2.5
_CJK = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]"
)
#: Placeholders for what still has to be looked up, in both languages.
_CLAIM = re.compile(
    r"\[\s*(?:specific metric|external citation|citation needed|to be verified)[^\]]{0,100}\]"
    r"|[\[【［]\s*(?:待核实|待查证|待验证|具体数据|具体指标|外部引用|需要引用)[^\]】］]{0,100}[\]】］]",
    re.IGNORECASE,
)


class IngressRules(BaseModel, frozen=True, extra="forbid"):
    """The filters' settings, of a deployment or a group."""

    #: Confidences below are refused, this one itself passes.
    min_confidence: float = Field(0.8, ge=0, le=1, allow_inf_nan=False)
    #: Latin characters, or their worth in CJK ones; 0 accepts any text.
    min_chars: float = Field(50, ge=0, le=10_000, allow_inf_nan=False)
    #: Cosines from here on are refused; None: the embedding model's own; above 1 switches it off.
    max_similarity: float | None = Field(None, ge=-1, le=2, allow_inf_nan=False)
    #: Whether the LLM is asked if a text contradicts itself.
    check_consistency: bool = False


@dataclass(frozen=True, slots=True)
class IngressCandidate:
    """An output that wants to become working memory."""

    text: str
    confidence: float | None = None
    flags: Sequence[str] = ()
    vector: Float32 | None = None
    #: None: not asked. ``unknown``: asked, but the LLM could not decide or was away (fail-open).
    consistency: Consistency | None = None


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """An entry that is in working memory already."""

    entry_id: str
    digest: bytes
    vector: Float32 | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reason`` is None for what is accepted. ``details`` are the numbers in the sentence, ``flags`` all
    that the output has now.
    """

    reason: Reason | None = None
    details: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    #: Accepted for now: the LLM is still to be asked, and may drop it.
    needs_check: bool = False

    @property
    def accepted(self) -> bool:
        return self.reason is None


#: One sentence a reason, with ``%(name)s`` for its details.
SENTENCES: dict[Reason, Translatable] = {
    "low_confidence": Translatable("Its confidence %(confidence)s is below %(limit)s."),
    "too_short": Translatable("It is worth %(length)s characters, fewer than %(limit)s."),
    "duplicate": Translatable("Working memory has the same text: %(entry)s."),
    "near_duplicate": Translatable(
        "It repeats %(entry)s: similarity %(similarity)s, the limit is %(limit)s."
    ),
    "inconsistent": Translatable("The LLM judged it contradictory or impossible."),
    "claim_refuted": Translatable("The fact check has refuted it."),
    "claim_pending": Translatable("It makes a claim that nobody has checked yet."),
    "runaway": Translatable("It comes from a loop that the guard has stopped."),
}


def screen(
    candidate: IngressCandidate,
    rules: IngressRules,
    entries: Iterable[KnownEntry] = (),
    embedding_model: str | None = None,
) -> Verdict:
    """Whether a candidate may enter, by the first of the filters that objects.

    ``entries`` are those of the same group; their vectors are compared if they are by the same model,
    which the caller sees to: others are given without one.
    """
    refused = (
        _confidence(candidate, rules)
        or _length(candidate, rules)
        or _duplicate(candidate, rules, entries, embedding_model)
        or (Verdict("inconsistent") if candidate.consistency == "inconsistent" else None)
        or _flags(candidate)
    )
    if refused is not None:
        return replace(refused, flags=_flags_of(candidate))
    needs_check = rules.check_consistency and candidate.consistency is None
    return Verdict(flags=_flags_of(candidate), needs_check=needs_check)


def _confidence(candidate: IngressCandidate, rules: IngressRules) -> Verdict | None:
    if candidate.confidence is None or candidate.confidence >= rules.min_confidence:
        return None
    return Verdict(
        "low_confidence", {"confidence": f"{candidate.confidence:g}", "limit": f"{rules.min_confidence:g}"}
    )


def _length(candidate: IngressCandidate, rules: IngressRules) -> Verdict | None:
    """Characters without white space, those of Chinese, Japanese and Korean for more; bytes play no part."""
    dense = "".join(candidate.text.split())
    length = len(dense) + (CJK_WEIGHT - 1) * len(_CJK.findall(dense))
    if dense and length >= rules.min_chars:
        return None
    return Verdict("too_short", {"length": f"{length:g}", "limit": f"{rules.min_chars:g}"})


def _duplicate(
    candidate: IngressCandidate, rules: IngressRules, entries: Iterable[KnownEntry], model: str | None
) -> Verdict | None:
    limit = thresholds_of(model).near_duplicate if rules.max_similarity is None else rules.max_similarity
    digest, closest = content_digest(candidate.text), (-2.0, "")  # below any cosine
    for entry in entries:
        if entry.digest == digest:
            return Verdict("duplicate", {"entry": entry.entry_id})
        similarity = cosine(candidate.vector, entry.vector)
        if similarity is not None:
            closest = max(closest, (similarity, entry.entry_id))
    similarity, entry_id = closest
    if similarity < limit:
        return None
    return Verdict(
        "near_duplicate", {"entry": entry_id, "similarity": f"{similarity:.3f}", "limit": f"{limit:g}"}
    )


def _flags(candidate: IngressCandidate) -> Verdict | None:
    if REFUTED in candidate.flags:
        return Verdict("claim_refuted")
    if RUNAWAY in candidate.flags:
        return Verdict("runaway")
    return Verdict("claim_pending") if _pending(candidate) else None


def _pending(candidate: IngressCandidate) -> bool:
    """Whether it makes a claim that nobody has checked: a placeholder for a figure or a source, too."""
    return VERIFY_PENDING in candidate.flags or (
        CHECKED not in candidate.flags and _CLAIM.search(candidate.text) is not None
    )


def _flags_of(candidate: IngressCandidate) -> tuple[str, ...]:
    """Those that it came with and the filters' own, which an earlier look may have left."""
    flags = [flag for flag in candidate.flags if flag not in (UNSCORED, UNVERIFIED, CONSISTENT)]
    if candidate.confidence is None:
        flags.append(UNSCORED)
    if _pending(candidate):
        flags.append(VERIFY_PENDING)
    if candidate.consistency == "consistent":
        flags.append(CONSISTENT)
    if VERIFIED not in flags:
        flags.append(UNVERIFIED)
    return tuple(dict.fromkeys(flags))


def cosine(one: Float32 | None, other: Float32 | None) -> float | None:
    """None where there is nothing to compare."""
    if one is None or other is None or one.shape != other.shape:
        return None
    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(one @ other) / lengths if lengths > MIN_NORM else None


NAMESPACE = UUID("6f0f7f0e-3b1d-5c5e-9a57-6a1f0c6b7d21")


PIECE_KEYWORDS = 5


@dataclass(frozen=True, slots=True)
class PlannedPiece:
    """A piece to be stored."""

    knowledge_id: UUID
    content: str
    #: SHA-256 of the normalised content: unique in its group and for its agent.
    content_hash: bytes
    metadata: dict[str, Any]


def plan(
    text: str,
    *,
    group_id: str,
    promoted_at: datetime,
    agent_id: str | None = None,
    entry_ids: Sequence[UUID] = (),
    metadata: Mapping[str, Any] | None = None,
    size: int = SIZE,
    overlap: int = OVERLAP,
) -> list[PlannedPiece]:
    """The pieces of a text, in order; a piece that says the same as an earlier one is there once.

    ``metadata`` are the source's own; ``source``, ``promoted_at``, where the piece stands in the whole, and
    the entries that it comes from are added.
    """
    pieces = split(text, size, overlap)
    planned: dict[bytes, PlannedPiece] = {}
    for number, piece in enumerate(pieces):
        content_hash = content_digest(piece.text)
        notes = {
            "keywords": keywords_ranked(piece.text)[:PIECE_KEYWORDS],
            **(metadata or {}),
            "source": "promotion",
            "promoted_at": promoted_at.isoformat(),
            "piece": number + 1,
            "pieces": len(pieces),
            "entry_ids": [str(entry_id) for entry_id in entry_ids],
        }
        planned.setdefault(
            content_hash,
            PlannedPiece(knowledge_id(group_id, agent_id, content_hash), piece.text, content_hash, notes),
        )
    return list(planned.values())


def knowledge_id(group_id: str, agent_id: str | None, content_hash: bytes) -> UUID:
    """The id that this content has for this group, or for one of its agents."""
    # The lengths keep two different pairs of names from being one.
    whose = f"{len(group_id)}:{group_id}:" + ("-" if agent_id is None else f"{len(agent_id)}:{agent_id}")
    return uuid5(NAMESPACE, f"{whose}:{content_hash.hex()}")


#: Entries that one digest looks at, the newest: their similarities are a square of numbers.
MAX_ENTRIES = 1_000
#: Clusters that one digest shows: a page that somebody reads.
MAX_CLUSTERS = 20
#: From here on two entries are similar by vectors without their language's common direction. Of 22 statements
#: on three topics in two languages, .3 joins six of ten pairs of one topic and none of two.
SIMILAR_BY_VECTOR = 0.3
#: Entries as many as which a common direction is only half believed.
CENTRE_PRIOR = 1
MAX_KEYWORDS = 6
#: Decimals that are compared: the last ones depend on the order of additions.
ROUNDED = 6


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A quarantined output that is not promoted yet."""

    entry_id: str
    text: str
    created_at: datetime
    session_id: str | None = None
    confidence: float | None = None
    vector: Float32 | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Entries that say similar things; the first is the one that the others are like."""

    entries: tuple[QuarantineEntry, ...]
    keywords: tuple[str, ...]

    @property
    def sessions(self) -> int:
        """Sessions that said it: what several say is more than an echo."""
        return len({entry.session_id for entry in self.entries})

    @property
    def first(self) -> datetime:
        return min(entry.created_at for entry in self.entries)

    @property
    def last(self) -> datetime:
        return max(entry.created_at for entry in self.entries)


@dataclass(frozen=True, slots=True)
class QuarantineDigest:
    """``left_out`` entries are in clusters beyond those shown."""

    clusters: tuple[Cluster, ...]
    left_out: int = 0


def digest(
    entries: Sequence[QuarantineEntry], *, max_entries: int = MAX_ENTRIES, max_clusters: int = MAX_CLUSTERS
) -> QuarantineDigest:
    """The clusters of the newest entries: those of most sessions first, then the larger, then the newer."""
    once = {entry.entry_id: entry for entry in entries}.values()
    ordered = sorted(once, key=lambda entry: (entry.created_at, entry.entry_id), reverse=True)
    looked_at = ordered[:max_entries]
    clusters = [_cluster([looked_at[row] for row in rows]) for rows in _stars(*_similarities(looked_at))]
    # stable: the newer centre first
    clusters.sort(key=lambda cluster: (-cluster.sessions, -len(cluster.entries)))
    largest = clusters[:max_clusters]
    left_out = len(looked_at) - sum(len(cluster.entries) for cluster in largest)
    return QuarantineDigest(tuple(largest), left_out)


def _cluster(entries: list[QuarantineEntry]) -> Cluster:
    words = keywords_ranked("\n".join(entry.text[:MAX_READ] for entry in entries))
    return Cluster(tuple(entries), tuple(words[:MAX_KEYWORDS]))


def _similarities(entries: Sequence[QuarantineEntry]) -> tuple[Floats, float]:
    """Similarity of each two, and from where on that counts."""
    vectors = [entry.vector for entry in entries if entry.vector is not None]
    if len(vectors) == len(entries) > 0 and len({vector.shape for vector in vectors}) == 1:
        similarities = _by_vector(np.stack(vectors), [language_code(entry.text) for entry in entries])
        if similarities is not None:
            return similarities, SIMILAR_BY_VECTOR
    return similarity_by_words([entry.text for entry in entries]), SIMILAR_BY_WORDS


def _by_vector(vectors: Float32, languages: Sequence[int]) -> Floats | None:
    """Cosines without each language's common direction, which makes all texts of a language similar."""
    lengths = np.linalg.norm(vectors, axis=1)
    if not (lengths > MIN_NORM).all():
        return None
    rows = vectors.astype(np.float64) / lengths[:, None]
    for language in set(languages):
        mine = np.array(languages) == language
        count = int(mine.sum())
        rows[mine] -= rows[mine].mean(axis=0) * (count / (count + CENTRE_PRIOR))
    rows /= np.maximum(np.linalg.norm(rows, axis=1), MIN_NORM)[:, None]
    return np.asarray(rows @ rows.T)


def _stars(similarities: Floats, threshold: float) -> list[list[int]]:
    """Rows of each cluster, its centre first, then by how like the centre they are."""
    near: NDArray[np.bool_] = similarities >= threshold
    np.fill_diagonal(near, val=True)
    weights = np.where(near, similarities, 0.0)
    counts, strength = near.sum(axis=1), weights.sum(axis=1)
    free = np.ones(len(near), dtype=bool)
    clusters: list[list[int]] = []
    while free.any():
        # Of equals the one that is most like its neighbours, then the newest: the first row.
        best = free & (counts == counts[free].max())
        centre = int(np.argmax(np.where(best, np.round(strength, ROUNDED), -np.inf)))
        rows = [int(row) for row in np.flatnonzero(near[centre] & free) if row != centre]
        members = [
            centre,
            *sorted(rows, key=lambda row: (-round(float(similarities[centre, row]), ROUNDED), row)),
        ]
        clusters.append(members)
        free[members] = False
        counts = counts - near[:, members].sum(axis=1)
        strength = strength - weights[:, members].sum(axis=1)
    return clusters
