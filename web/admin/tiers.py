"""The three tiers side by side, working memory, and asking the tiers as a workflow's node does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import get_args

from flask import Response, render_template, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from pydantic import ValidationError
from sqlalchemy import Connection

from jiyi.errors import BrokerUnavailable, InvalidRequest, JiyiError, TooManyQuestions, problems_of
from jiyi.protocol import limits
from jiyi.protocol.tier_questions import MAX_RESULTS, MAX_WEB_RESULTS, MemoryAnswer, MemoryQuery, Order
from jiyi.protocol.wire.calls import retrieval_queue
from jiyi.settings import get_settings
from jiyi.text.words import Language
from jiyi.tiers.retrieval_node import NodeProperties, format_history
from models.db.bounded_reads import SourceReading, SourceUnavailable, attempt, from_database, source
from models.tiers import quarantine, quarantine_reads
from models.tiers import query as memory
from models.tiers import working as cache
from models.tiers.quarantine import RunningAway
from models.tiers.quarantine_reads import EntryDetail, EntryPreview, TierCounts
from models.tiers.working import WM_ENTRIES, WM_HOURS
from models.tiers.working import WorkingEntry as CachedEntry
from web.accounts.identity import who
from web.actions import caller
from web.admin import inputs
from web.admin.frame import MenuPage, parameter
from web.admin.knowledge import REASONS, digest_pages, knowledge_pages, promotion_pages, quarantine_pages
from web.admin.pages import Context, Pages

working_pages = Pages(
    "working",
    __name__,
    MenuPage("tiers", lazy_gettext("Working memory"), "working.page", table="quarantine_logs"),
)


@working_pages.page("/working", "working.html", live="_working.html", every=5)
def working_memory(group: str) -> Context:
    """The list as agents get it, from Valkey, with what the database knows besides; each may be away."""
    cached = source("Valkey").begin(lambda: cache.read(group))

    database = attempt(lambda: from_database(lambda c: quarantine_reads.working(c, group, WM_ENTRIES)))
    entries, notes = together(attempt(cached), database)
    bounds = {"most": WM_ENTRIES, "hours": WM_HOURS, "as_of": datetime.now(UTC)}
    return {"entries": entries, "notes": notes, **bounds}


def together(
    cached: SourceReading[list[CachedEntry] | None], database: SourceReading[list[EntryDetail]]
) -> tuple[list[EntryDetail], list[str]]:
    """The entries, and what people should know about them.

    Raises:
        SourceUnavailable: neither Valkey nor the database did.
    """
    rows = {row.entry_id: row for row in database.value or ()}
    if cached.value is not None:
        note = _(
            "The database does not answer (%(why)s): what the list in Valkey does not keep is left out.",
            why=database.reason,
        )
        entries = [rows.get(entry.entry_id) or _only_cached(entry) for entry in cached.value]
        return entries, [] if database.value is not None else [note]
    if database.value is None:
        raise SourceUnavailable("working memory", cached.reason or database.reason)
    note = _(
        "Valkey does not answer (%(why)s), so agents receive none of this now. The database returned it.",
        why=cached.reason,
    )
    # Without a reason it is not made yet, or lost: the next who reads or writes makes the list of these.
    return database.value, [note] if cached.reason else []


def _only_cached(entry: CachedEntry) -> EntryDetail:
    """An entry of which only Valkey can be asked: what it does not keep is empty."""
    cached = {name: getattr(entry, name) for name in EntryDetail.model_fields if hasattr(entry, name)}
    empty: Context = {"depth": 0, "rejected_details": {}, "metadata": {}, "provenance": {}}
    derived = {"working_until": entry.expires_at, "state": "accepted", "chars": len(entry.content)}
    unknown = dict.fromkeys(EntryDetail.model_fields) | empty
    return EntryDetail(**unknown | cached | derived | {"flags": list(entry.flags)})


tier_pages = Pages(
    "tiers", __name__, MenuPage("tiers", lazy_gettext("Three tiers"), "tiers.page", table="quarantine_logs")
)

#: Spans that one may look back over, in days.
DEFAULT_SPAN = "7"
CHOICES = ("1", DEFAULT_SPAN, "30", "all")
WORKING_SHOWN, WAITING_SHOWN = 6, 5
#: Seconds after which an output that waits for the filters waits too long: an idle worker takes one or two.
LATE_SECONDS = 60.0


@dataclass(frozen=True)
class _DatabaseState:
    """What the database knows; all unknown if it does not answer."""

    counts: TierCounts | None = None
    screened: dict[str, int] | None = None
    waiting: list[EntryPreview] | None = None
    running_away: list[RunningAway] | None = None


@tier_pages.page("/tiers", "tiers.html", live="_tiers.html", every=5, spans=CHOICES)
def three_tiers(group: str) -> Context:
    """All at once, each allowed to be silent."""
    days = inputs.choice("days", CHOICES) or DEFAULT_SPAN
    since = None if days == "all" else datetime.now(UTC) - timedelta(days=int(days))

    def question(connection: Connection) -> _DatabaseState:
        waiting = quarantine_reads.EntryFilters(state="waiting")
        return _DatabaseState(
            counts=quarantine_reads.counts(connection, group),
            screened=quarantine_reads.outcomes(connection, group, since),
            waiting=quarantine_reads.entries(connection, group, waiting, None, WAITING_SHOWN),
            running_away=quarantine.running_away(connection, group, datetime.now(UTC)),
        )

    database, hot = attempt(lambda: from_database(question)), attempt(working_memory)
    state = database.value or _DatabaseState()
    entries, notes = (hot.value["entries"], hot.value["notes"]) if hot.value else (None, None)
    return {
        "days": days,
        "as_of": datetime.now(UTC),
        "unknown": database.reason or None,
        "working_unknown": hot.reason or None,
        "notes": notes or [],
        "entries": None if entries is None else entries[:WORKING_SHOWN],
        "in_working": None if entries is None else len(entries),
        "tiers": _states(database, notes),
        "outcomes": _outcomes(state.screened),
        **vars(state),
        "limits": {"entries": WM_ENTRIES, "hours": WM_HOURS},
    }


def _states(database: SourceReading[_DatabaseState], working_notes: list[str] | None) -> list[Context]:
    """The state of each tier; ``working_notes``: None if nothing is known of it."""
    down = None if database.value else _("The database does not answer: %(why)s", why=database.reason)
    counts = database.value.counts if database.value else None
    since = None if counts is None else counts.waiting_since
    late = since is not None and (datetime.now(UTC) - since).total_seconds() > LATE_SECONDS
    notes = [_("Neither Valkey nor the database answers.")] if working_notes is None else working_notes
    note = notes[0] if notes else ""
    behind = _("The filters are behind: is a worker for the queue “embedding” running?") if late else ""
    without = _("Some of it has no vector yet: it is found by its words until it has.")
    return [
        _state("quarantine", down, behind),
        _state("working", None if working_notes is not None and database.reason else note or None, note),
        _state("longterm", down, without if counts and counts.without_vector else ""),
    ]


def _state(tier: str, down: str | None, note: str) -> Context:
    state = "unreachable" if down else "attention" if note else "ok"
    return {"tier": tier, "state": state, "note": down or note}


def _outcomes(screened: dict[str, int] | None) -> list[Context]:
    """Accepted first, then the filters in their order, each with its share of all; unknown reasons last."""
    if not screened:
        return []
    rules, total = quarantine.rules(), sum(screened.values())
    limits = {
        "low_confidence": _("below %(limit)s", limit=f"{rules.min_confidence:g}"),
        "too_short": _("below %(limit)s characters", limit=f"{rules.min_chars:g}"),
    }
    unknown = sorted(screened.keys() - REASONS.keys() - {"accepted"})
    names = ["accepted", *(name for name in REASONS if name in screened), *unknown]
    counts = {name: screened.get(name, 0) for name in names}
    return [
        {"outcome": name, "count": count, "share": count / total, "limit": limits.get(name)}
        for name, count in counts.items()
    ]


recall_pages = Pages(
    "recall", __name__, MenuPage("retrieval", lazy_gettext("Query the tiers"), "recall.page")
)

ORDERS: tuple[Order, ...] = get_args(Order)
LANGUAGES: tuple[Language, ...] = get_args(Language)
#: Seconds for an answer: the tiers give up after eight, and say which of them did not answer.
TIMEOUT = 9.0
#: With Valkey away first the broker is tried, then what is left of the tiers.
PATIENCE = 20.0
MAX_DAYS = 36_500


@recall_pages.page(
    "/ask",
    "recall.html",
    orders=ORDERS,
    languages_of_heading=LANGUAGES,
    most=MAX_RESULTS,
    most_web=MAX_WEB_RESULTS,
    longest=lambda _data: limits.MAX_FOCAL_CHARS,
)
def answered(group: str) -> Context:
    query, options = (parameter("query", limits.MAX_FOCAL_CHARS) or "").strip(), _options()
    reading = _ask_tiers(group, query, options) if query else None
    text = format_history(reading.value.results, options["language"]) if reading and reading.value else None
    unknown = (reading and reading.reason) or None
    return {
        "query": query,
        "wanted": options,
        "answer": reading and reading.value,
        "unknown": unknown,
        "history_context": text,
    }


@recall_pages.get("/ask/answer")
def found() -> Response:
    """The answer alone; the page's address becomes that of the question."""
    address = request.full_path.replace("/ask/answer", "/ask", 1)
    return Response(
        render_template("_recall.html", **answered()),
        headers={"HX-Replace-Url": address},
        mimetype="text/html",
    )


def _options() -> Context:
    """The node's properties, with its defaults; what is left empty in the form is not asked for."""
    defaults = NodeProperties()
    sent = parameter("sent") is not None
    days = inputs.decimal("time_range_days", 1e-6, MAX_DAYS)
    return {
        "max_results": inputs.whole("max_results", MAX_RESULTS) or defaults.max_results,
        "time_range_days": days if sent or days is not None else defaults.time_range_days,
        "relevance_threshold": inputs.decimal("relevance_threshold", -1, 1),
        "include_verdicts": parameter("include_verdicts") is not None if sent else defaults.include_verdicts,
        "order": inputs.choice("order", ORDERS) or defaults.order,
        "session_id": parameter("session"),
        "agent_id": parameter("agent"),
        "web_results": int(inputs.decimal("web_results", 0, MAX_WEB_RESULTS) or 0),
        "language": inputs.choice("headings", LANGUAGES) or defaults.language,  # `language` is the page's own
    }


def _ask_tiers(group: str, query: str, options: Context) -> SourceReading[MemoryAnswer]:
    fields = {name: value for name, value in options.items() if name != "language" and value is not None}
    if options["web_results"]:
        fields["asking_session"] = options["session_id"] or who().actor
    try:
        question = MemoryQuery(group_id=group, query=query, **fields)
    except ValidationError as error:
        return SourceReading(None, "; ".join(problems_of(error)))
    queue = retrieval_queue(group, "", get_settings().retrieval_shards)

    def by_worker() -> MemoryAnswer:
        try:
            return MemoryAnswer.model_validate_json(
                caller().call_for_json("retrieval.memory", queue, question, TIMEOUT)
            )
        except (
            BrokerUnavailable
        ):  # the queue is in Valkey, as working memory is: what is left of the tiers answers here
            return memory.query_memory(question)

    def ask() -> MemoryAnswer | JiyiError:
        try:
            return by_worker()
        except (InvalidRequest, TooManyQuestions) as error:
            return error

    reading = attempt(source("retrieval worker").begin(ask, PATIENCE))
    if isinstance(reading.value, JiyiError):
        return SourceReading(None, str(reading.value))
    return SourceReading(reading.value, reading.reason)


BLUEPRINTS = (
    *(tier_pages, quarantine_pages, working_pages),
    *(knowledge_pages, promotion_pages, digest_pages, recall_pages),
)
