"""``jiyi promote``, ``demote``, ``edit``, ``digest``: what somebody makes of the tiers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from jiyi.cli import output
from jiyi.cli.commands import Shown, shows
from jiyi.cli.shell import given
from jiyi.cli.tiers import tables
from jiyi.client.client import Client
from jiyi.protocol.tiers.digests import DigestState
from jiyi.protocol.tiers.knowledge import Promoted
from jiyi.protocol.tiers.query import Kind


class Verdict(StrEnum):
    """What a check came to."""

    TRUE = "true"
    REFUTED = "refuted"


Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.")]


@shows
def promote(
    client: Client,
    entries: Annotated[list[UUID] | None, typer.Argument(help="Ids of entries of quarantine.", metavar="[ID…]")] = None,
    text: Annotated[str | None, typer.Option(help="This text, for which the entries stand.")] = None,
    agent: Annotated[str | None, typer.Option(help="Known to this agent alone, not to the group.")] = None,
    kind: Annotated[Kind, typer.Option(help="What it is.")] = "statement",
    note: Annotated[str, typer.Option(help="Why, for the history.")] = "",
    preview: Annotated[bool, typer.Option("--preview", "-n", help="Only show the pieces.")] = False,
) -> Shown:
    """Make long-term knowledge of entries, or of a text. Doing it again changes nothing."""
    done = client.tiers.promote(*(entries or []), text=text, kind=kind, note=note, preview=preview, **given(agent_id=agent))
    return Shown(done, lambda: _print_promoted(done, preview=preview))


@shows
def demote(
    client: Client, ids: Annotated[list[UUID], typer.Argument(help="Ids of knowledge.", metavar="ID…")], reason: Reason = ""
) -> Shown:
    """Take knowledge back: it is not found any more, and keeps its history."""
    gone = client.tiers.demote(*ids, reason=reason)

    def view() -> None:
        for one in gone:
            output.line(str(one))
        if len(gone) < len(ids):
            output.notice(f"{len(ids) - len(gone):,} had been taken back before")

    return Shown({"demoted": gone}, view)


@shows
def check(
    client: Client,
    verdict: Annotated[Verdict, typer.Argument(help="What it came to: `true`, or `refuted`, which keeps them out.")],
    entries: Annotated[list[UUID], typer.Argument(help="Ids of entries of quarantine.", metavar="ID…")],
    reason: Reason = "",
) -> Shown:
    """Say what a fact check of entries of quarantine came to; the filters look at them again."""
    done = client.tiers.check(*entries, verdict=verdict.value, reason=reason)

    def view() -> None:
        for one in done:
            output.line(str(one))
        if len(done) < len(entries):
            output.notice(f"{len(entries) - len(done):,} had been checked before, or are not there")

    return Shown({"checked": done}, view)


@shows
def edit(
    client: Client,
    knowledge_id: Annotated[UUID, typer.Argument(help="Id of the knowledge.")],
    content: Annotated[str, typer.Argument(help="What it is to say.")],
    reason: Reason = "",
) -> Shown:
    """Put knowledge into other words; prints the id of the version that is in force."""
    became = client.tiers.edit(knowledge_id, content, reason=reason)
    return Shown({"knowledge_id": became}, lambda: output.line(str(became)))


@shows
def digest(
    client: Client,
    days: Annotated[float, typer.Option(min=0.01, help="Of what came in these last days.")] = 7,
    last: Annotated[bool, typer.Option("--last", help="Show the latest one instead of making one.")] = False,
) -> Shown:
    """What quarantine is about, in clusters, for those who promote."""
    if not last:
        made = client.tiers.digest(days)
    elif latest := client.tiers.digests(1):
        made = latest[0]
    else:
        return Shown(None, lambda: output.notice("there is no digest yet"))
    return Shown(made, lambda: _print_digest(made))


def _print_promoted(done: Promoted, *, preview: bool) -> None:
    made = output.table("would be stored" if preview else "known now", "id", "tokens", "", "piece", right=["tokens"], grow=["piece"])
    fixed = [(piece.knowledge_id, piece.tokens, "known already" if piece.known else "new") for piece in done.pieces]
    tables.fill(made, fixed, [piece.content for piece in done.pieces])
    output.show(made)
    if done.already:
        output.notice(f"{len(done.already):,} of the entries were promoted before")


def _print_digest(found: DigestState) -> None:
    span = f"{output.local_date(found.since)} … {output.local_date(found.until)}, {found.entries:,} entries"
    made = output.table(span, "#", "entries", "sessions", "topic", "summary", right=["#", "entries", "sessions"], grow=["summary"])
    fixed = [
        (item.number, len(item.entry_ids), item.sessions, output.cut(item.topic, tables.LEAST_ROOM, tables.MAX_LINES))
        for item in found.items
    ]
    tables.fill(made, fixed, [item.summary for item in found.items])
    output.listing(made, None, "", "there is nothing to promote")
    if found.items:
        output.notice("promote one: jiyi digest --last --json gives the ids of its entries")
