"""Digests: what a group's quarantine was about, cluster by cluster, for those who choose what is to be known."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.errors import BrokerUnavailable, NoAnswer
from jiyi.protocol.tiers.digests import DigestBody
from jiyi.protocol.tiers.quarantine import MAX_IDS
from jiyi.settings import get_settings
from models.db.conditions import MAX_LISTED_CHARS
from models.tiers import actions, quarantine_reads
from models.tiers import digests as stored
from web.accounts.identity import who
from web.admin import frame, inputs
from web.admin.acting import checked, perform
from web.admin.frame import Page, asked
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("digests", __name__)
PAGES = (Page("tiers", lazy_gettext("Digests"), "digests.page"),)

PER_PAGE = 20
#: Entries of a cluster that its page shows: the most central ones.
ENTRIES_SHOWN = 30
#: Days that a digest may look back over.
SPANS = (1, 7, 30, 365)
#: Seconds that the page waits for a digest: the rules take one, an LLM some seconds a cluster.
DIGEST_TIMEOUT = 60.0


@blueprint.get("/digests")
@blueprint.get("/digests.json", endpoint="json")
def page() -> Response:
    return answer("digests.html", data=_listed(), spans=SPANS, hours=get_settings().digest_hours)


@blueprint.get("/digests/rows")
def rows() -> str:
    """The following ones, to be put in the place of the button that asked for them."""
    return render_template("_digests.html", **_listed())


@blueprint.get("/digests/<uuid:digest_id>")
@blueprint.get("/digests/<uuid:digest_id>.json", endpoint="one_json")
def one(digest_id: UUID) -> Response:
    group = frame.group()

    def question(connection: Connection) -> dict[str, Any] | None:
        found = stored.listed(connection, group, digest_id)
        if not found:
            return None
        shown = list(dict.fromkeys(one for item in found[0].items for one in item.entry_ids[:ENTRIES_SHOWN]))
        entries = quarantine_reads.some_entries(connection, group, shown, MAX_LISTED_CHARS)
        return {"digest": found[0], "entries": {entry.entry_id: entry for entry in entries}}

    data = from_database(question)
    if data is None:
        abort(404, _("There is no digest %(id)s in the group “%(group)s”.", id=digest_id, group=group))
    return answer("digest.html", data={"group": group, **data}, shown=ENTRIES_SHOWN, most=MAX_IDS, may_change=who().may("admin"))


@blueprint.post("/digests")
def make() -> ResponseReturnValue:
    """A digest of the last days. A worker makes it. Safe to repeat because every digest stands by itself."""
    wanted = checked(DigestBody, days=request.form.get("days", "7"))
    try:
        made = perform(actions.make_digest, wanted, timeout=DIGEST_TIMEOUT)
    except (NoAnswer, BrokerUnavailable):
        abort(503, _("No worker has answered yet. If one is at it, the digest will appear here; see the queue “reflection”."))
    address = url_for("digests.one", digest_id=made.digest_id, group=frame.group())
    if frame.wants_fragment():
        return Response("", 204, {"HX-Redirect": address})
    return redirect(address, 303)


def _listed() -> dict[str, Any]:
    group, before = frame.group(), inputs.identifier("before")
    found = from_database(lambda connection: stored.listed(connection, group, before=before, limit=PER_PAGE + 1))
    shown = found[:PER_PAGE]
    return {
        "group": group,
        "digests": shown,
        "next": shown[-1].digest_id if len(found) > PER_PAGE else None,
        "before": asked("before"),
        "may_change": who().may("admin"),
    }
