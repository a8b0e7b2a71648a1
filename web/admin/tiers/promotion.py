"""Promotion: what entries of quarantine say, or a text, becomes knowledge; first its pieces, then, on a click, the promotion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args
from uuid import UUID

from flask import Blueprint, abort, render_template, request
from flask_babel import gettext as _
from pydantic import ValidationError
from sqlalchemy import Connection

from jiyi.errors import InvalidRequest, JiyiError, NotFound, problems_of
from jiyi.protocol.tiers.knowledge import PromoteBody, Promoted
from jiyi.protocol.tiers.quarantine import MAX_IDS, MAX_REASON_CHARS
from jiyi.protocol.tiers.query import Kind
from jiyi.text.splitting import OVERLAP, SIZE
from models.memory.agents import reads as agent_reads
from models.tiers import actions, digests, knowledge_reads, quarantine_reads
from models.tiers.quarantine_reads import EntryDetail
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import chosen_ids, ids_of, perform
from web.admin.frame import Page
from web.admin.pages import page
from web.sources import from_database

T = TypeVar("T")

blueprint = Blueprint("promotion", __name__)
PAGES: tuple[Page, ...] = ()

KINDS: tuple[Kind, ...] = get_args(Kind)
AGENTS_OFFERED = 500


@page(blueprint, "/promotion", "promotion.html", kinds=KINDS, size=SIZE, overlap=OVERLAP, longest_note=MAX_REASON_CHARS)
def beginning(group: str) -> dict[str, object]:
    """Entries that were chosen (``entry``), a cluster of a digest (``digest`` and ``item``), knowledge that was demoted
    (``knowledge``), or a text that is still to be written.
    """
    need("admin")
    ids = ids_of(request.args.getlist("entry"), "entry", MAX_IDS)
    digest_id, number, again = inputs.identifier("digest"), inputs.whole("item"), inputs.identifier("knowledge")

    def question(connection: Connection) -> dict[str, object]:
        begun = _of_digest(connection, group, digest_id, number) if digest_id else _again(connection, group, again)
        entries = _entries(connection, group, ids or begun.entry_ids)
        text = begun.text if begun.text or len(entries) != 1 else entries[0].content
        verdicts = bool(entries) and all(entry.kind == "verdict" for entry in entries)
        kind = begun.kind or ("verdict" if verdicts else "statement")
        body = _body(entries, text, kind=kind, agent_id=begun.agent_id)
        return {
            "entries": entries,
            "text": text,
            "kind": kind,
            "agent": begun.agent_id,
            "preview": body and actions.preview(connection, group, body),
            "agents": agent_reads.names(connection, group, AGENTS_OFFERED),
        }

    return _answered(question)


@blueprint.post("/promotion/preview")
def preview() -> str:
    """The pieces that would be stored. Changes nothing."""
    need("admin")
    group, form = frame.group(), _form()

    def question(connection: Connection) -> Promoted | None:
        body = form(connection)
        return None if body is None else actions.preview(connection, group, body)

    return render_template("_pieces.html", group=group, preview=_answered(question))


@blueprint.post("/promotion")
def promote() -> str:
    """Safe to repeat because a piece's id follows from what it says."""
    need("admin")
    body = _answered(_form())
    if body is None:
        abort(400, _("Choose entries, or write what is to be known."))
    done = perform(actions.promote, body)
    template = "_promoted.html" if frame.wants_fragment() else "promoted.html"
    return render_template(template, group=frame.group(), done=done)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What the page that led here has to say."""

    text: str = ""
    kind: Kind | None = None
    agent_id: str | None = None
    entry_ids: Sequence[UUID] = ()


def _of_digest(connection: Connection, group: str, digest_id: UUID, number: int | None) -> _Beginning:
    found = digests.listed(connection, group, digest_id)
    item = next((one for one in found[0].items if one.number == (number or 1)), None) if found else None
    if item is None:
        raise NotFound(f"the group {group!r} has no such digest")
    return _Beginning(item.summary, entry_ids=item.entry_ids[:MAX_IDS])


def _again(connection: Connection, group: str, knowledge_id: UUID | None) -> _Beginning:
    """What was demoted is promoted once more."""
    if knowledge_id is None:
        return _Beginning()
    found = knowledge_reads.find(connection, group, knowledge_id)
    if found is None:
        raise NotFound(f"the group {group!r} has no knowledge {knowledge_id}")
    return _Beginning(found.content, found.kind, found.agent_id)


def _answered(question: Callable[[Connection], T]) -> T:
    """The answer; 400 or 404 with its words if what was asked for cannot be."""

    def attempted(connection: Connection) -> T | JiyiError:
        try:
            return question(connection)
        except (InvalidRequest, NotFound) as error:
            return error

    found = from_database(attempted)
    if isinstance(found, JiyiError):
        abort(404 if isinstance(found, NotFound) else 400, str(found))
    return found


def _form() -> Callable[[Connection], PromoteBody | None]:
    """What the form asks for, once the database has told what the entries say; None if it is empty."""
    group, ids, form = frame.group(), chosen_ids("entry", MAX_IDS), request.form.to_dict()
    text = form.get("text", "").replace("\r\n", "\n")
    fields = {"kind": form.get("kind") or "statement", "agent_id": form.get("agent", "").strip() or None, "note": form.get("note", "")}
    return lambda connection: _body(_entries(connection, group, ids), text, **fields)


def _entries(connection: Connection, group: str, ids: Sequence[UUID]) -> list[EntryDetail]:
    found = quarantine_reads.some_entries(connection, group, ids)
    if len(found) < len(set(ids)):
        raise NotFound(f"entry: the quarantine of the group {group!r} does not have all of these")
    return found


def _body(entries: list[EntryDetail], text: str, **fields: Any) -> PromoteBody | None:
    """An entry whose words were left as they are is promoted itself, with all that is known of it."""
    said = text.strip()
    if not said and not entries:
        return None
    own = len(entries) == 1 and entries[0].content.strip() == said
    ids = [entry.entry_id for entry in entries]
    try:
        return PromoteBody(entry_ids=ids, text=None if own or not said else said, **fields)
    except ValidationError as error:
        raise InvalidRequest(problems_of(error)) from None
