"""Working memory: what a group's agents are told of what was said lately, unverified, and for how long yet."""

from __future__ import annotations

from datetime import UTC, datetime

from flask import Blueprint
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.db.bounded_reads import Reading, Unanswered, attempt, from_database, source
from models.tiers import quarantine_reads
from models.tiers import working as kept
from models.tiers.quarantine_reads import EntryWithOrigin
from models.tiers.working import WM_ENTRIES, WM_HOURS, Entry
from web.admin.frame import Page
from web.admin.pages import Context, page

blueprint = Blueprint("working", __name__)
PAGES = (Page("tiers", lazy_gettext("Working memory"), "working.page"),)


@page(blueprint, "/working", "working.html", live="_working.html")
def gather(group: str) -> Context:
    """The list as agents get it, from Valkey, with what the database knows besides; each may be away."""
    cached = source("Valkey").begin(lambda: kept.read(group))

    def question(connection: Connection) -> list[EntryWithOrigin]:
        return quarantine_reads.working(connection, group, WM_ENTRIES)

    stored = attempt(lambda: from_database(question))
    entries, notes = together(attempt(cached), stored)
    return {"entries": entries, "notes": notes, "most": WM_ENTRIES, "hours": WM_HOURS, "as_of": datetime.now(UTC)}


def together(cached: Reading[list[Entry] | None], stored: Reading[list[EntryWithOrigin]]) -> tuple[list[EntryWithOrigin], list[str]]:
    """The entries, and what people should know about them.

    Raises:
        Unanswered: neither Valkey nor the database did.
    """
    known = {row.entry_id: row for row in stored.value or ()}
    if cached.value is not None:
        notes = (
            []
            if stored.value is not None
            else [_("The database does not answer (%(why)s): what the list in Valkey does not keep is left out.", why=stored.reason)]
        )
        return [known.get(entry.entry_id) or _told(entry) for entry in cached.value], notes
    if stored.value is None:
        raise Unanswered("working memory", cached.reason or stored.reason)
    if cached.reason:
        return stored.value, [
            _("Valkey does not answer (%(why)s), so agents get nothing of this now. It is what the database knows.", why=cached.reason)
        ]
    return stored.value, []  # not made yet, or lost: the next who reads or writes makes the list of these


def _told(entry: Entry) -> EntryWithOrigin:
    """An entry of which only Valkey can be asked: what it does not keep is empty."""
    kept = {name: getattr(entry, name) for name in EntryWithOrigin.model_fields if hasattr(entry, name)}
    unknown = dict.fromkeys(EntryWithOrigin.model_fields) | {"depth": 0, "rejected_details": {}, "metadata": {}, "provenance": {}}
    told = {"working_until": entry.expires_at, "state": "accepted", "chars": len(entry.content), "flags": list(entry.flags)}
    return EntryWithOrigin(**unknown | kept | told)
