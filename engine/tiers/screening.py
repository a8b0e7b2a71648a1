"""Which outputs become working memory: five filters in order, the first that refuses decides.

Pure: the vectors, the entries that are there already and the LLM's verdict are given. A refusal has a reason that can be
counted and a sentence that says why, and nothing is refused for what is not known: a missing confidence, vector or verdict
passes, and the flags say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from engine.retrieval.ranking import MIN_NORM
from engine.retrieval.thresholds import thresholds_of
from jiyi.protocol.knowledge import CHECKED, REFUTED, RUNAWAY, UNSCORED, UNVERIFIED, VERIFIED, VERIFY_PENDING
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.translatable import Translatable
from jiyi.text.words import content_digest

Reason = Literal["low_confidence", "too_short", "duplicate", "near_duplicate", "inconsistent", "claim_refuted", "claim_pending", "runaway"]
Consistency = Literal["consistent", "inconsistent", "unknown"]

#: What one Chinese, Japanese or Korean character says, in Latin characters: 20 of them are a statement like 50.
CJK_WEIGHT = 2.5
_CJK = re.compile("[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]")
#: Placeholders for what still has to be looked up, in both languages.
_CLAIM = re.compile(
    r"\[\s*(?:specific metric|external citation|citation needed|to be verified)[^\]]{0,100}\]"
    r"|[\[【［]\s*(?:待核实|待查证|待验证|具体数据|具体指标|外部引用|需要引用)[^\]】］]{0,100}[\]】］]",
    re.IGNORECASE,
)


class IngressRules(BaseModel):
    """The filters' settings, of a deployment or a group."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Confidences below are refused, this one itself passes.
    min_confidence: float = Field(0.8, ge=0, le=1, allow_inf_nan=False)
    #: Latin characters, or their worth in CJK ones; 0 accepts any text.
    min_chars: float = Field(50, ge=0, le=10_000, allow_inf_nan=False)
    #: Cosines from here on are refused; None: the embedding model's own; above 1 switches it off.
    max_similarity: float | None = Field(None, ge=-1, le=2, allow_inf_nan=False)
    #: Whether the LLM is asked if a text contradicts itself.
    check_consistency: bool = False
    #: What becomes of claims that nobody has checked yet.
    pending_claims: Literal["refuse", "flag"] = "refuse"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An output that wants to become working memory."""

    text: str
    confidence: float | None = None
    flags: Sequence[str] = ()
    vector: Float32 | None = None
    #: None: not asked. ``unknown``: asked, but the LLM could not tell or was away (fail-open).
    consistency: Consistency | None = None


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """An entry that is in working memory already."""

    entry_id: str
    digest: bytes
    vector: Float32 | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reason`` is None for what is accepted. ``details`` are the numbers in the sentence, ``flags`` all that the output has now."""

    reason: Reason | None = None
    details: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    #: Accepted for now: the LLM is still to be asked, and may drop it.
    needs_check: bool = False

    @property
    def accepted(self) -> bool:
        return self.reason is None

    @property
    def sentence(self) -> str:
        """Why it was refused, translatable. Empty if accepted."""
        return SENTENCES[self.reason].filled(self.details) if self.reason else ""


#: One sentence a reason, with ``%(name)s`` for its details.
SENTENCES: dict[Reason, Translatable] = {
    "low_confidence": Translatable("Its confidence %(confidence)s is below %(limit)s."),
    "too_short": Translatable("It is worth %(length)s characters, fewer than %(limit)s."),
    "duplicate": Translatable("Working memory has the same text: %(entry)s."),
    "near_duplicate": Translatable("It says what %(entry)s says: similarity %(similarity)s, the limit is %(limit)s."),
    "inconsistent": Translatable("It contradicts itself or states what cannot be so, the LLM says."),
    "claim_refuted": Translatable("The fact check has refuted it."),
    "claim_pending": Translatable("It makes a claim that nobody has checked yet."),
    "runaway": Translatable("It comes from a loop that the guard has stopped."),
}


def screen(candidate: Candidate, rules: IngressRules, known: Iterable[KnownEntry] = (), embedding_model: str | None = None) -> Verdict:
    """Whether a candidate may enter, by the first of the filters that objects.

    ``known`` are the entries of the same group; their vectors are compared if they are by the same model, which the
    caller sees to: others are given without one.
    """
    filters: tuple[Callable[[], Verdict | None], ...] = (
        lambda: _confidence(candidate, rules),
        lambda: _length(candidate, rules),
        lambda: _duplicate(candidate, rules, known, embedding_model),
        lambda: Verdict("inconsistent") if candidate.consistency == "inconsistent" else None,
        lambda: _flags(candidate, rules),
    )
    for check in filters:
        if (refused := check()) is not None:
            return replace(refused, flags=_flags_of(candidate))
    return Verdict(flags=_flags_of(candidate), needs_check=rules.check_consistency and candidate.consistency is None)


def weighted_length(text: str) -> float:
    """Characters without white space, those of Chinese, Japanese and Korean for more. Bytes play no part."""
    dense = "".join(text.split())
    return len(dense) + (CJK_WEIGHT - 1) * len(_CJK.findall(dense))


def makes_unchecked_claim(text: str) -> bool:
    """Whether a text has a placeholder for a figure or a source."""
    return _CLAIM.search(text) is not None


def _confidence(candidate: Candidate, rules: IngressRules) -> Verdict | None:
    if candidate.confidence is None or candidate.confidence >= rules.min_confidence:
        return None
    return Verdict("low_confidence", {"confidence": f"{candidate.confidence:g}", "limit": f"{rules.min_confidence:g}"})


def _length(candidate: Candidate, rules: IngressRules) -> Verdict | None:
    length = weighted_length(candidate.text)
    if candidate.text.strip() and length >= rules.min_chars:
        return None
    return Verdict("too_short", {"length": f"{length:g}", "limit": f"{rules.min_chars:g}"})


def _duplicate(candidate: Candidate, rules: IngressRules, known: Iterable[KnownEntry], model: str | None) -> Verdict | None:
    limit = thresholds_of(model).near_duplicate if rules.max_similarity is None else rules.max_similarity
    digest, closest = content_digest(candidate.text), (-2.0, "")
    for entry in known:
        if entry.digest == digest:
            return Verdict("duplicate", {"entry": entry.entry_id})
        closest = max(closest, (_cosine(candidate.vector, entry.vector), entry.entry_id))
    similarity, entry_id = closest
    if similarity < limit:
        return None
    return Verdict("near_duplicate", {"entry": entry_id, "similarity": f"{similarity:.3f}", "limit": f"{limit:g}"})


def _flags(candidate: Candidate, rules: IngressRules) -> Verdict | None:
    if REFUTED in candidate.flags:
        return Verdict("claim_refuted")
    if RUNAWAY in candidate.flags:
        return Verdict("runaway")
    return Verdict("claim_pending") if rules.pending_claims == "refuse" and _pending(candidate) else None


def _pending(candidate: Candidate) -> bool:
    return VERIFY_PENDING in candidate.flags or (CHECKED not in candidate.flags and makes_unchecked_claim(candidate.text))


def _flags_of(candidate: Candidate) -> tuple[str, ...]:
    """Those that it came with and the filters' own, which an earlier look may have left."""
    flags = [flag for flag in candidate.flags if flag not in (UNSCORED, UNVERIFIED, VERIFIED)]
    if candidate.confidence is None:
        flags.append(UNSCORED)
    if _pending(candidate):
        flags.append(VERIFY_PENDING)
    flags.append(VERIFIED if candidate.consistency == "consistent" else UNVERIFIED)
    return tuple(dict.fromkeys(flags))


def _cosine(one: Float32 | None, other: Float32 | None) -> float:
    """-2, below any cosine, where there is nothing to compare."""
    if one is None or other is None or one.shape != other.shape:
        return -2.0
    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(one @ other) / lengths if lengths > MIN_NORM else -2.0
