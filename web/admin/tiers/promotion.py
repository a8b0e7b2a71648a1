"""Promotion: what entries of quarantine say, or a text, becomes knowledge; first its pieces, then, on a click, the promotion."""

from __future__ import annotations

from typing import get_args

from flask import Blueprint, abort, render_template, request
from flask_babel import gettext as _
from sqlalchemy import Connection

from jiyi.protocol.knowledge import MAX_IDS, MAX_REASON_CHARS
from jiyi.protocol.tier_questions import Kind
from jiyi.text.splitting import OVERLAP, SIZE
from models.memory import agent_reads
from models.tiers import actions, promoting
from models.tiers.promoting import Draft
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import chosen_ids, ids_of, perform
from web.admin.frame import Page
from web.admin.pages import Context, page, reads_database

blueprint = Blueprint("promotion", __name__)
PAGES: tuple[Page, ...] = ()

KINDS: tuple[Kind, ...] = get_args(Kind)


@page(blueprint, "/promotion", "promotion.html", kinds=KINDS, size=SIZE, overlap=OVERLAP, longest_note=MAX_REASON_CHARS)
def beginning(connection: Connection, group: str) -> Context:
    """Entries that were chosen (``entry``), a cluster of a digest (``digest`` and ``item``), knowledge that was demoted
    (``knowledge``), or a text that is still to be written.
    """
    need("admin")
    ids = ids_of(request.args.getlist("entry"), "entry", MAX_IDS)
    digest_id, number, again = inputs.identifier("digest"), inputs.whole("item"), inputs.identifier("knowledge")
    if digest_id:
        draft = promoting.of_digest(connection, group, digest_id, number or 1)
    elif again:
        draft = promoting.of_knowledge(connection, group, again)
    else:
        draft = promoting.of_entries(connection, group, ids)
    body = draft.body()
    return {
        "entries": draft.entries,
        "text": draft.text,
        "kind": draft.kind,
        "agent": draft.agent_id,
        "preview": body and actions.preview(connection, group, body),
        "agents": agent_reads.names(connection, group),
    }


@blueprint.post("/promotion/preview")
@reads_database
def preview(connection: Connection) -> str:
    """The pieces that would be stored. Changes nothing."""
    need("admin")
    body = _sent(connection).body()
    found = None if body is None else actions.preview(connection, frame.group(), body)
    return render_template("_pieces.html", group=frame.group(), preview=found)


@blueprint.post("/promotion")
def promote() -> str:
    """Safe to repeat because a piece's id follows from what it says."""
    need("admin")
    body = reads_database(lambda connection: _sent(connection).body())()
    if body is None:
        abort(400, _("Choose entries, or write what is to be known."))
    template = "_promoted.html" if frame.wants_fragment() else "promoted.html"
    return render_template(template, group=frame.group(), done=perform(actions.promote, body))


def _sent(connection: Connection) -> Draft:
    """What the form says: of entries, once the database has told what those say."""
    entries = promoting.entries_of(connection, frame.group(), chosen_ids("entry", MAX_IDS))
    text, form = request.form.get("text", "").replace("\r\n", "\n"), request.form
    return Draft(entries, text, form.get("kind") or "statement", form.get("agent", "").strip() or None, form.get("note", ""))
