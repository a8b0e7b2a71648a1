"""``jiyi promote``, ``demote``, ``edit``, ``digest``: what somebody makes of the tiers."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from jiyi.cli import output
from jiyi.cli.shell import Json, connect, given
from jiyi.cli.tiers import tables
from jiyi.protocol.tiers.digests import DigestState
from jiyi.protocol.tiers.knowledge import Promoted
from jiyi.protocol.tiers.query import Kind

Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.")]


def promote(
    ctx: typer.Context,
    entries: Annotated[list[UUID] | None, typer.Argument(help="Ids of entries of quarantine.", metavar="[ID…]")] = None,
    text: Annotated[str | None, typer.Option(help="This text, for which the entries stand.")] = None,
    agent: Annotated[str | None, typer.Option(help="Known to this agent alone, not to the group.")] = None,
    kind: Annotated[Kind, typer.Option(help="What it is.")] = "statement",
    note: Annotated[str, typer.Option(help="Why, for the history.")] = "",
    preview: Annotated[bool, typer.Option("--preview", "-n", help="Only show the pieces.")] = False,
    as_json: Json = False,
) -> None:
    """Make long-term knowledge of entries, or of a text. Doing it again changes nothing."""
    with connect(ctx) as client:
        done = client.tiers.promote(*(entries or []), text=text, kind=kind, note=note, preview=preview, **given(agent_id=agent))
    if as_json:
        output.document(done.model_dump(mode="json"))
        return
    _show_promoted(done, preview=preview)


def demote(
    ctx: typer.Context,
    ids: Annotated[list[UUID], typer.Argument(help="Ids of knowledge.", metavar="ID…")],
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Take knowledge back: it is not found any more, and keeps its history."""
    with connect(ctx) as client:
        gone = client.tiers.demote(*ids, reason=reason)
    if as_json:
        output.document({"demoted": [str(one) for one in gone]})
        return
    for one in gone:
        output.line(str(one))
    if len(gone) < len(ids):
        output.notice(f"{len(ids) - len(gone):,} had been taken back before")


def edit(
    ctx: typer.Context,
    knowledge_id: Annotated[UUID, typer.Argument(help="Id of the knowledge.")],
    content: Annotated[str, typer.Argument(help="What it is to say.")],
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Put knowledge into other words; prints the id of the version that is in force."""
    with connect(ctx) as client:
        became = client.tiers.edit(knowledge_id, content, reason=reason)
    if as_json:
        output.document({"knowledge_id": str(became)})
        return
    output.line(str(became))


def digest(
    ctx: typer.Context,
    days: Annotated[float, typer.Option(min=0.01, help="Of what came in these last days.")] = 7,
    last: Annotated[bool, typer.Option("--last", help="Show the latest one instead of making one.")] = False,
    as_json: Json = False,
) -> None:
    """What quarantine is about, in clusters, for those who promote."""
    with connect(ctx) as client:
        found = client.tiers.digests(1) if last else [client.tiers.digest(days)]
    if as_json:
        output.document(found[0].model_dump(mode="json") if found else None)
        return
    if not found:
        output.notice("there is no digest yet")
        return
    _show_digest(found[0])


def _show_promoted(done: Promoted, *, preview: bool) -> None:
    made = output.table("would be stored" if preview else "known now", "id", "tokens", "", "piece", right=["tokens"], grow=["piece"])
    fixed = [(piece.knowledge_id, piece.tokens, "known already" if piece.known else "new") for piece in done.pieces]
    tables.fill(made, fixed, [piece.content for piece in done.pieces])
    output.stdout().print(made)
    if done.already:
        output.notice(f"{len(done.already):,} of the entries were promoted before")


def _show_digest(found: DigestState) -> None:
    span = f"{output.local_date(found.since)} … {output.local_date(found.until)}, {found.entries:,} entries"
    made = output.table(span, "#", "entries", "sessions", "topic", "summary", right=["#", "entries", "sessions"], grow=["summary"])
    fixed = [
        (item.number, len(item.entry_ids), item.sessions, output.cut(item.topic, tables.LEAST_ROOM, tables.MAX_LINES))
        for item in found.items
    ]
    tables.fill(made, fixed, [item.summary for item in found.items])
    if found.items:
        output.stdout().print(made)
        output.notice("promote one: jiyi digest --last --json gives the ids of its entries")
    else:
        output.notice("there is nothing to promote")
