"""Quarantine, its digests, promotion, and the knowledge that came of it, for people who audit and promote."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args
from uuid import UUID

from flask import abort, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import LazyString, lazy_gettext
from flask_babel import gettext as _
from sqlalchemy import Connection

from engine.operations import HOUR, JOBS
from jiyi.protocol.base import BY_ID, BY_TIME
from jiyi.protocol.knowledge import MAX_IDS, MAX_REASON_CHARS
from jiyi.protocol.tier_questions import Kind
from jiyi.settings import get_settings
from jiyi.text.splitting import MOST_SIZE, OVERLAP, SIZE
from models.db.rows import MAX_LISTED_CHARS, MAX_WORDS_CHARS
from models.memory import agents
from models.tiers import actions, digests, knowledge, quarantine_reads
from models.tiers.actions import PromotionDraft
from models.tiers.knowledge import Demoted, KnowledgeFilters
from models.tiers.quarantine import sentence
from models.tiers.quarantine_reads import EntryFilters, EntryPreview, State
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import PagePart, form, ids_of, perform
from web.admin.frame import MenuPage, parameter
from web.admin.pages import Context, Pages, listed, reads_database, redirect_to
from web.show import age, translated

#: Template filter → what the tiers call in one word → the word for people.
WORDS: dict[str, dict[str, LazyString]] = {
    "entry_state": {
        "waiting": lazy_gettext("waits for the filters"),
        "accepted": lazy_gettext("in working memory"),
        "rejected": lazy_gettext("kept out"),
        "expired": lazy_gettext("no longer in working memory"),
        "promoted": lazy_gettext("promoted"),
    },
    "reason_name": {
        "low_confidence": lazy_gettext("low confidence"),
        "too_short": lazy_gettext("too short"),
        "duplicate": lazy_gettext("said before, word for word"),
        "near_duplicate": lazy_gettext("says the same again"),
        "inconsistent": lazy_gettext("contradicts itself"),
        "claim_refuted": lazy_gettext("claim refuted"),
        "runaway": lazy_gettext("from a runaway loop"),
        "claim_pending": lazy_gettext("claim not checked"),
    },
    "flag_name": {
        "unscored": lazy_gettext("no confidence given"),
        "unverified": lazy_gettext("unverified"),
        "verified": lazy_gettext("verified"),
        "consistent": lazy_gettext("found consistent"),
        "verify_pending": lazy_gettext("claim not checked"),
        "refuted": lazy_gettext("claim refuted"),
        "runaway": lazy_gettext("from a runaway loop"),
        "recursion": lazy_gettext("nodes call each other too deep"),
        "token_rate": lazy_gettext("too many words a second"),
        "repetition": lazy_gettext("says the same again and again"),
        "low_entropy": lazy_gettext("the same few words"),
        "checked": lazy_gettext("checked and found true"),
    },
    "item_kind": {"statement": lazy_gettext("statement"), "verdict": lazy_gettext("verdict")},
    "item_source": {
        "hot": lazy_gettext("working memory"),
        "cold": lazy_gettext("long-term memory"),
        "external": lazy_gettext("web"),
    },
    "tier_name": {
        "quarantine": lazy_gettext("Quarantine"),
        "working": lazy_gettext("Working memory"),
        "longterm": lazy_gettext("Long-term memory"),
        "web": lazy_gettext("Web search"),
    },
    "change_name": {
        "promoted": lazy_gettext("promoted"),
        "demoted": lazy_gettext("demoted"),
        "edited": lazy_gettext("edited"),
    },
    "tier_state": {
        "ok": lazy_gettext("answered"),
        "failed": lazy_gettext("failed"),
        "skipped": lazy_gettext("not asked"),
    },
}
REASONS = WORDS["reason_name"]


def why(entry: EntryPreview) -> str:
    """Why an entry did not become working memory; empty where it did, or where the reason is unknown here."""
    return translated(sentence(entry.rejected_reason, entry.rejected_details))


def time_left(until: datetime | None) -> str:
    return age(None if until is None else max(0.0, (until - datetime.now(UTC)).total_seconds()))


quarantine_pages = Pages(
    "quarantine",
    __name__,
    MenuPage("tiers", lazy_gettext("Quarantine"), "quarantine.page", table="quarantine_logs"),
)
quarantine_pages.add_app_template_filter(why, "why_rejected")
quarantine_pages.add_app_template_filter(time_left, "time_left")
for _filter, _words in WORDS.items():
    # The name itself if nobody has a word for it: a newer worker may know more than this process.
    quarantine_pages.add_app_template_filter(
        lambda name, words=_words: str(words.get(name, name.replace("_", " "))), _filter
    )

ENTRIES_PER_PAGE = 30
STATES: tuple[State, ...] = get_args(State)
#: Sessions and nodes that the form offers: those that spoke last; others can be typed.
OFFERED = 100
NO_ENTRY = lazy_gettext("There is no entry %(id)s in the quarantine of the group “%(group)s”.")
ENTRY_FILTERS = ("q", "session", "node", "agent", "state", "reason", "at_least", "below", "unscored")


@quarantine_pages.page(
    "/quarantine", "quarantine.html", rows="_quarantine.html", states=STATES, reasons=REASONS
)
def entries_page(connection: Connection, group: str) -> Context:
    entries = quarantine_reads.entries(
        connection, group, _entry_filters(), inputs.place(BY_TIME), ENTRIES_PER_PAGE + 1
    )
    return {
        "filters": inputs.parameters(ENTRY_FILTERS),
        **listed("entries", entries, ENTRIES_PER_PAGE, "created_at", "entry_id"),
        **_offered(connection, group),
    }


@quarantine_pages.page(
    "/quarantine/<uuid:entry_id>", "quarantined.html", "one", NO_ENTRY, like=lambda data: data["entry"].like
)
def entry_page(connection: Connection, group: str, entry_id: UUID) -> Context | None:
    entries = quarantine_reads.some_entries(connection, group, [entry_id])
    return (
        {"entry": entries[0], "knowledge": knowledge.pieces_of(connection, group, entry_id)}
        if entries
        else None
    )


def _chosen(fields: Context) -> Context:
    return fields if fields["entry_ids"] else abort(400, _("Choose entries first."))


form(
    quarantine_pages,
    "/quarantine/delete",
    actions.delete,
    PagePart("_quarantine.html", entries_page),
    check=_chosen,
)
form(quarantine_pages, "/quarantine/<uuid:entry_id>/check", actions.check, "quarantine.one")


def _offered(connection: Connection, group: str) -> dict[str, list[str]]:
    """What the form offers, which stands on the whole page only."""
    if frame.wants_fragment():
        return {}
    return {
        "sessions": quarantine_reads.spoke_last(connection, group, "session_id", OFFERED),
        "nodes": quarantine_reads.spoke_last(connection, group, "node_id", OFFERED),
    }


def _entry_filters() -> EntryFilters:
    state = inputs.choice("state", STATES)
    return EntryFilters(
        words=parameter("q", MAX_WORDS_CHARS) or "",
        state=state,  # type: ignore[arg-type]
        reason=parameter("reason", 40),
        session_id=parameter("session"),
        node_id=parameter("node"),
        agent_id=parameter("agent"),
        at_least=inputs.decimal("at_least", 0, 1),
        below=inputs.decimal("below", 0, 1),
        unscored=inputs.choice("unscored", ("1",)) is not None,
    )


digest_pages = Pages(
    "digests", __name__, MenuPage("tiers", lazy_gettext("Digests"), "digests.page", table="digests")
)

DIGESTS_PER_PAGE = 20
#: Entries of a cluster that its page shows: the most central ones.
ENTRIES_SHOWN = 30
#: Days that a digest may look back over.
SPANS = (1, 7, 30, 365)
#: Seconds that the page waits for a digest: the rules take one, an LLM some seconds a cluster.
DIGEST_TIMEOUT = 60.0
NO_DIGEST = lazy_gettext("There is no digest %(id)s in the group “%(group)s”.")


def _interval(_data: object) -> float:
    """Hours from one digest to the next; 0: the job is switched off."""
    return JOBS["digest"].schedule(get_settings()).every / HOUR


@digest_pages.page("/digests", "digests.html", rows="_digests.html", spans=SPANS, hours=_interval)
def digests_page(connection: Connection, group: str) -> Context:
    rows = digests.listed(connection, group, before=inputs.place(BY_ID), limit=DIGESTS_PER_PAGE + 1)
    return listed("digests", rows, DIGESTS_PER_PAGE, "digest_id")


@digest_pages.page(
    "/digests/<uuid:digest_id>", "digest.html", "one", NO_DIGEST, entries_shown=ENTRIES_SHOWN, most=MAX_IDS
)
def digest_page(connection: Connection, group: str, digest_id: UUID) -> Context | None:
    rows = digests.listed(connection, group, digest_id)
    if not rows:
        return None
    entry_ids = list(
        dict.fromkeys(entry_id for item in rows[0].items for entry_id in item.entry_ids[:ENTRIES_SHOWN])
    )
    entries = quarantine_reads.some_entries(connection, group, entry_ids, MAX_LISTED_CHARS)
    return {"digest": rows[0], "entries": {entry.entry_id: entry for entry in entries}}


@digest_pages.post("/digests")
def make() -> ResponseReturnValue:
    """A digest of the last days. A worker makes it. Safe to repeat because every digest is independent."""
    digest = perform(actions.make_digest, timeout=DIGEST_TIMEOUT, days=request.form.get("days", "7"))
    return redirect_to(url_for("digests.one", digest_id=digest.digest_id, group=frame.group()))


promotion_pages = Pages("promotion", __name__)

PIECE_KINDS: tuple[Kind, ...] = get_args(Kind)


@promotion_pages.page(
    "/promotion",
    "promotion.html",
    kinds=PIECE_KINDS,
    size=SIZE,
    overlap=OVERLAP,
    longest_note=MAX_REASON_CHARS,
)
def beginning(connection: Connection, group: str) -> Context:
    """Of chosen entries (``entry``), a cluster (``digest``, ``item``), demoted ``knowledge``, or none."""
    need("admin")
    ids = ids_of(request.args.getlist("entry"), "entry", MAX_IDS)
    digest_id, number, again = (
        inputs.identifier("digest"),
        inputs.whole("item"),
        inputs.identifier("knowledge"),
    )
    if digest_id:
        draft = actions.of_digest(connection, group, digest_id, number or 1)
    elif again:
        draft = actions.of_knowledge(connection, group, again)
    else:
        draft = actions.of_entries(connection, group, ids)
    body = draft.body()
    return {
        "entries": draft.entries,
        "text": draft.text,
        "kind": draft.kind,
        "agent": draft.agent_id,
        "preview": body and actions.preview(connection, group, body),
        "agents": agents.agent_names(connection, group),
    }


@promotion_pages.post("/promotion/preview")
@reads_database
def preview(connection: Connection) -> str:
    """The pieces that would be stored. Changes nothing."""
    need("admin")
    body = _sent(connection).body()
    pieces = None if body is None else actions.preview(connection, frame.group(), body)
    return render_template("_pieces.html", group=frame.group(), preview=pieces)


@promotion_pages.post("/promotion")
def promote() -> str:
    """Safe to repeat because a piece's id follows from what it says."""
    need("admin")
    body = reads_database(lambda connection: _sent(connection).body())()
    if body is None:
        abort(400, _("Choose entries, or write a text."))
    template = "_promoted.html" if frame.wants_fragment() else "promoted.html"
    return render_template(template, group=frame.group(), result=perform(actions.promote, body))


def _sent(connection: Connection) -> PromotionDraft:
    """The draft in the form; the texts of its entries are read from the database."""
    entries = actions.entries_of(
        connection, frame.group(), ids_of(request.form.getlist("entry"), "entry", MAX_IDS)
    )
    text, form = request.form.get("text", "").replace("\r\n", "\n"), request.form
    return PromotionDraft(
        entries,
        text,
        form.get("kind") or "statement",
        form.get("agent", "").strip() or None,
        form.get("note", ""),
    )


knowledge_pages = Pages(
    "knowledge", __name__, MenuPage("tiers", lazy_gettext("Knowledge"), "knowledge.page", table="knowledge")
)

PIECES_PER_PAGE = 30
DEMOTED: tuple[Demoted, ...] = get_args(Demoted)
#: Whose knowledge: of the whole group, which no agent can be called.
OF_GROUP = "group"
PIECE_FILTERS = ("q", "kind", "whose", "agent", "session", "demoted")
#: Entries of quarantine that a piece's page shows as its source.
MAX_SOURCES = 100
NO_PIECE = lazy_gettext("The group “%(group)s” has no knowledge %(id)s.")


@knowledge_pages.page("/knowledge", "knowledge.html", rows="_knowledge.html", kinds=PIECE_KINDS)
def pieces_page(connection: Connection, group: str) -> Context:
    pieces = knowledge.pieces(connection, group, _piece_filters(), inputs.place(BY_TIME), PIECES_PER_PAGE + 1)
    return {
        "filters": inputs.parameters(PIECE_FILTERS),
        **listed("pieces", pieces, PIECES_PER_PAGE, "promoted_at", "knowledge_id"),
        "agents": knowledge.agents_with_knowledge(connection, group),
    }


@knowledge_pages.page("/knowledge/<uuid:knowledge_id>", "piece.html", "one", NO_PIECE, longest=MOST_SIZE)
def piece_page(connection: Connection, group: str, knowledge_id: UUID) -> Context | None:
    piece = knowledge.find(connection, group, [knowledge_id]).get(knowledge_id)
    if piece is None:
        return None
    sources = quarantine_reads.some_entries(connection, group, piece.entry_ids[:MAX_SOURCES])
    history = knowledge.history(connection, group, piece.knowledge_id)[::-1]
    return {"piece": piece, "sources": sources, "history": history, "replaces": piece.replaces}


def _edited(values: Context) -> str:
    became, changed = (
        values["knowledge_id"],
        values["knowledge_id"] != (request.view_args or {}).get("knowledge_id"),
    )
    return url_for(
        "knowledge.one", knowledge_id=became, group=frame.group(), done="edited" if changed else None
    )


def _demoted(values: Context) -> str:
    return url_for("knowledge.one", knowledge_id=values["knowledge_id"], group=frame.group(), done="demoted")


form(knowledge_pages, "/knowledge/<uuid:knowledge_id>/edit", actions.edit, _edited)
form(knowledge_pages, "/knowledge/<uuid:knowledge_id>/demote", actions.demote, _demoted)


def _piece_filters() -> KnowledgeFilters:
    whose = inputs.choice("whose", (OF_GROUP,))
    return KnowledgeFilters(
        words=parameter("q", MAX_WORDS_CHARS) or "",
        kind=inputs.choice("kind", PIECE_KINDS),
        agent_id="" if whose else parameter("agent"),
        session_id=parameter("session"),
        demoted=inputs.choice("demoted", DEMOTED) or "without",  # type: ignore[arg-type]
    )
