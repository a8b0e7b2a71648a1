"""Digests: what a group's quarantine was about, cluster by cluster, for those who choose what is to be known."""

from __future__ import annotations

from uuid import UUID

from flask import Blueprint, abort, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.errors import BrokerUnavailable, NoAnswer
from jiyi.protocol.tiers.quarantine import MAX_IDS
from jiyi.settings import get_settings
from models.db.conditions import MAX_LISTED_CHARS
from models.tiers import actions, quarantine_reads
from models.tiers import digests as stored
from web.accounts.identity import who
from web.admin import frame, inputs
from web.admin.acting import perform
from web.admin.frame import Page, asked
from web.admin.pages import page, reads_database, redirect_to, split_page

blueprint = Blueprint("digests", __name__)
PAGES = (Page("tiers", lazy_gettext("Digests"), "digests.page"),)

PER_PAGE = 20
#: Entries of a cluster that its page shows: the most central ones.
ENTRIES_SHOWN = 30
#: Days that a digest may look back over.
SPANS = (1, 7, 30, 365)
#: Seconds that the page waits for a digest: the rules take one, an LLM some seconds a cluster.
DIGEST_TIMEOUT = 60.0


@page(blueprint, "/digests", "digests.html", rows="_digests.html", spans=SPANS, hours=lambda _data: get_settings().digest_hours)
@reads_database
def listed(connection: Connection, group: str) -> dict[str, object]:
    found = stored.listed(connection, group, before=inputs.identifier("before"), limit=PER_PAGE + 1)
    digests, following = split_page(found, PER_PAGE, lambda last: last.digest_id)
    return {"digests": digests, "next": following, "before": asked("before"), "may_change": who().may("admin")}


@page(
    blueprint,
    "/digests/<uuid:digest_id>",
    "digest.html",
    name="one",
    missing=lazy_gettext("There is no digest %(id)s in the group “%(group)s”."),
    shown=ENTRIES_SHOWN,
    most=MAX_IDS,
    may_change=lambda _data: who().may("admin"),
)
@reads_database
def one(connection: Connection, group: str, digest_id: UUID) -> dict[str, object] | None:
    found = stored.listed(connection, group, digest_id)
    if not found:
        return None
    shown = list(dict.fromkeys(one for item in found[0].items for one in item.entry_ids[:ENTRIES_SHOWN]))
    entries = quarantine_reads.some_entries(connection, group, shown, MAX_LISTED_CHARS)
    return {"digest": found[0], "entries": {entry.entry_id: entry for entry in entries}}


@blueprint.post("/digests")
def make() -> ResponseReturnValue:
    """A digest of the last days. A worker makes it. Safe to repeat because every digest stands by itself."""
    try:
        made = perform(actions.make_digest, timeout=DIGEST_TIMEOUT, days=request.form.get("days", "7"))
    except (NoAnswer, BrokerUnavailable):
        abort(503, _("No worker has answered yet. If one is at it, the digest will appear here; see the queue “reflection”."))
    return redirect_to(url_for("digests.one", digest_id=made.digest_id, group=frame.group()))
