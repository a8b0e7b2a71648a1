"""What the tiers call in one word, and the filters in a sentence, for people: where it is translated."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from flask import Blueprint
from flask_babel import LazyString, lazy_gettext

from models.tiers.quarantine import sentence
from models.tiers.quarantine_reads import Entry
from web.show import age, translated

STATES: dict[str, LazyString] = {
    "waiting": lazy_gettext("waits for the filters"),
    "accepted": lazy_gettext("in working memory"),
    "rejected": lazy_gettext("kept out"),
    "expired": lazy_gettext("no longer in working memory"),
    "promoted": lazy_gettext("promoted"),
}
REASONS: dict[str, LazyString] = {
    "low_confidence": lazy_gettext("low confidence"),
    "too_short": lazy_gettext("too short"),
    "duplicate": lazy_gettext("said before, word for word"),
    "near_duplicate": lazy_gettext("says the same again"),
    "inconsistent": lazy_gettext("contradicts itself"),
    "claim_refuted": lazy_gettext("claim refuted"),
    "runaway": lazy_gettext("from a runaway loop"),
    "claim_pending": lazy_gettext("claim not checked"),
}
FLAGS: dict[str, LazyString] = {
    "unscored": lazy_gettext("no confidence given"),
    "unverified": lazy_gettext("unverified"),
    "verified": lazy_gettext("found consistent"),
    "verify_pending": lazy_gettext("claim not checked"),
    "refuted": lazy_gettext("claim refuted"),
    "runaway": lazy_gettext("from a runaway loop"),
    "recursion": lazy_gettext("nodes call each other too deep"),
    "token_rate": lazy_gettext("too many words a second"),
    "repetition": lazy_gettext("says the same again and again"),
    "low_entropy": lazy_gettext("the same few words"),
    "checked": lazy_gettext("checked and found true"),
}
KINDS: dict[str, LazyString] = {"statement": lazy_gettext("statement"), "verdict": lazy_gettext("verdict")}
SOURCES: dict[str, LazyString] = {
    "hot": lazy_gettext("working memory"),
    "cold": lazy_gettext("long-term memory"),
    "external": lazy_gettext("web"),
}
TIERS: dict[str, LazyString] = {
    "quarantine": lazy_gettext("Quarantine"),
    "working": lazy_gettext("Working memory"),
    "longterm": lazy_gettext("Long-term memory"),
    "web": lazy_gettext("Web search"),
}
ACTIONS: dict[str, LazyString] = {
    "promoted": lazy_gettext("promoted"),
    "demoted": lazy_gettext("demoted"),
    "edited": lazy_gettext("edited"),
}
TIER_STATES: dict[str, LazyString] = {
    "ok": lazy_gettext("answered"),
    "failed": lazy_gettext("failed"),
    "skipped": lazy_gettext("not asked"),
}


def said(words: Mapping[str, LazyString], name: str) -> str:
    """The name itself if nobody has a word for it: a newer worker may know more than this process."""
    return str(words.get(name, name.replace("_", " ")))


def why(entry: Entry) -> str:
    """Why an entry did not become working memory; empty where it did, or where the reason is unknown here."""
    return translated(sentence(entry.rejected_reason, entry.rejected_details))


def time_left(until: datetime | None) -> str:
    return age(None if until is None else max(0.0, (until - datetime.now(UTC)).total_seconds()))


def register(blueprint: Blueprint) -> None:
    """As filters of all templates."""
    named = {
        "entry_state": STATES,
        "reason_name": REASONS,
        "flag_name": FLAGS,
        "item_kind": KINDS,
        "item_source": SOURCES,
        "tier_name": TIERS,
        "tier_state": TIER_STATES,
        "change_name": ACTIONS,
    }
    for name, words in named.items():
        blueprint.add_app_template_filter(lambda value, words=words: said(words, value), name)
    blueprint.add_app_template_filter(why, "why_rejected")
    blueprint.add_app_template_filter(time_left, "time_left")
