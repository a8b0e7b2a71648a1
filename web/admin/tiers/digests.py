"""Digests: what a group's quarantine was about, cluster by cluster, for those who choose what is to be known."""

from __future__ import annotations

from uuid import UUID

from flask import Blueprint, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from engine.operations.jobs import HOUR, JOBS
from jiyi.protocol.knowledge import MAX_IDS
from jiyi.settings import get_settings
from models.db.conditions import MAX_LISTED_CHARS
from models.tiers import actions, quarantine_reads
from models.tiers import digests as stored
from web.admin import frame, inputs
from web.admin.acting import perform
from web.admin.frame import Page
from web.admin.pages import Context, listed, page, redirect_to

blueprint = Blueprint("digests", __name__)
PAGES = (Page("tiers", lazy_gettext("Digests"), "digests.page"),)

PER_PAGE = 20
#: Entries of a cluster that its page shows: the most central ones.
ENTRIES_SHOWN = 30
#: Days that a digest may look back over.
SPANS = (1, 7, 30, 365)
#: Seconds that the page waits for a digest: the rules take one, an LLM some seconds a cluster.
DIGEST_TIMEOUT = 60.0
NONE = lazy_gettext("There is no digest %(id)s in the group “%(group)s”.")


def _interval(_data: object) -> float:
    """Hours from one digest to the next; 0: the job is switched off."""
    return JOBS["digest"].schedule(get_settings()).every / HOUR


@page(blueprint, "/digests", "digests.html", rows="_digests.html", spans=SPANS, hours=_interval)
def some(connection: Connection, group: str) -> Context:
    found = stored.listed(connection, group, before=inputs.identifier("before"), limit=PER_PAGE + 1)
    return listed("digests", found, PER_PAGE, "digest_id")


@page(blueprint, "/digests/<uuid:digest_id>", "digest.html", name="one", missing=NONE, shown=ENTRIES_SHOWN, most=MAX_IDS)
def one(connection: Connection, group: str, digest_id: UUID) -> Context | None:
    found = stored.listed(connection, group, digest_id)
    if not found:
        return None
    shown = list(dict.fromkeys(one for item in found[0].items for one in item.entry_ids[:ENTRIES_SHOWN]))
    entries = quarantine_reads.some_entries(connection, group, shown, MAX_LISTED_CHARS)
    return {"digest": found[0], "entries": {entry.entry_id: entry for entry in entries}}


@blueprint.post("/digests")
def make() -> ResponseReturnValue:
    """A digest of the last days. A worker makes it. Safe to repeat because every digest stands by itself."""
    made = perform(actions.make_digest, timeout=DIGEST_TIMEOUT, days=request.form.get("days", "7"))
    return redirect_to(url_for("digests.one", digest_id=made.digest_id, group=frame.group()))
