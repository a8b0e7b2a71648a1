"""The three tiers of a group side by side: what each holds, whether it answers, and what the filters let in or kept out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from flask import Blueprint
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.db.bounded_reads import Reading, attempt, from_database
from models.tiers import quarantine, quarantine_reads
from models.tiers.quarantine import RunningAway
from models.tiers.quarantine_reads import Counts, Entry
from models.tiers.working import WM_ENTRIES, WM_HOURS
from web.admin import inputs
from web.admin.frame import Page
from web.admin.pages import Context, page
from web.admin.tiers import working
from web.admin.tiers.words import REASONS

blueprint = Blueprint("tiers", __name__)
PAGES = (Page("tiers", lazy_gettext("Three tiers"), "tiers.page"),)

#: Spans that one may look back over, in days.
DEFAULT_SPAN = "7"
CHOICES = ("1", DEFAULT_SPAN, "30", "all")
WORKING_SHOWN, WAITING_SHOWN = 6, 5
#: Seconds after which an output that waits for the filters waits too long: an idle worker takes one or two.
LATE_SECONDS = 60.0


@dataclass(frozen=True)
class _Stored:
    """What the database knows; all unknown if it does not answer."""

    counts: Counts | None = None
    screened: dict[str, int] | None = None
    waiting: list[Entry] | None = None
    running_away: list[RunningAway] | None = None


@page(blueprint, "/tiers", "tiers.html", live="_tiers.html", spans=CHOICES)
def gather(group: str) -> Context:
    """All at once, each allowed to be silent."""
    days = inputs.choice("days", CHOICES) or DEFAULT_SPAN
    since = None if days == "all" else datetime.now(UTC) - timedelta(days=int(days))

    def question(connection: Connection) -> _Stored:
        waiting = quarantine_reads.WantedEntries(state="waiting")
        return _Stored(
            counts=quarantine_reads.counts(connection, group),
            screened=quarantine_reads.outcomes(connection, group, since),
            waiting=quarantine_reads.entries(connection, group, waiting, None, WAITING_SHOWN),
            running_away=quarantine.running_away(connection, group, datetime.now(UTC)),
        )

    stored, hot = attempt(lambda: from_database(question)), attempt(working.gather)
    found = stored.value or _Stored()
    entries, notes = (hot.value["entries"], hot.value["notes"]) if hot.value else (None, None)
    return {
        "days": days,
        "as_of": datetime.now(UTC),
        "unknown": stored.reason or None,
        "working_unknown": hot.reason or None,
        "notes": notes or [],
        "entries": None if entries is None else entries[:WORKING_SHOWN],
        "in_working": None if entries is None else len(entries),
        "tiers": _states(stored, notes),
        "outcomes": _outcomes(found.screened),
        **vars(found),
        "limits": {"entries": WM_ENTRIES, "hours": WM_HOURS},
    }


def _states(stored: Reading[_Stored], told: list[str] | None) -> list[Context]:
    """How each tier fares, by what it lives on; ``told``: the notes on working memory, None if nothing tells of it."""
    down = None if stored.value else _("The database does not answer: %(why)s", why=stored.reason)
    counts = stored.value.counts if stored.value else None
    since = None if counts is None else counts.waiting_since
    late = since is not None and (datetime.now(UTC) - since).total_seconds() > LATE_SECONDS
    notes = [_("Neither Valkey nor the database answers.")] if told is None else told
    return [
        _state("quarantine", down, _("The filters are behind: is a worker for the queue “embedding” running?") if late else ""),
        _state("working", notes[0] if notes and not (told is not None and stored.reason) else None, notes[0] if notes else ""),
        _state(
            "longterm",
            down,
            _("Some of it has no vector yet: it is found by its words until it has.") if counts and counts.without_vector else "",
        ),
    ]


def _state(tier: str, down: str | None, note: str) -> Context:
    return {"tier": tier, "state": "unreachable" if down else "attention" if note else "ok", "note": down or note}


def _outcomes(screened: dict[str, int] | None) -> list[Context]:
    """Accepted first, then the filters in their order, each with its share of all; unknown reasons last."""
    if not screened:
        return []
    rules, total = quarantine.rules(), sum(screened.values())
    limits = {
        "low_confidence": _("below %(limit)s", limit=f"{rules.min_confidence:g}"),
        "too_short": _("below %(limit)s characters", limit=f"{rules.min_chars:g}"),
    }
    names = ["accepted", *(name for name in REASONS if name in screened), *sorted(screened.keys() - REASONS.keys() - {"accepted"})]
    return [
        {"outcome": name, "count": screened.get(name, 0), "share": screened.get(name, 0) / total, "limit": limits.get(name)}
        for name in names
    ]
