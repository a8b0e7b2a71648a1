"""``jiyi quarantine``, ``working``, ``knowledge``: what is in each tier."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jiyi.cli import output
from jiyi.cli.commands import Shown, shows
from jiyi.cli.shell import given
from jiyi.cli.tiers import tables
from jiyi.client.client import Client
from jiyi.protocol.queries import DEFAULT_PAGE
from jiyi.protocol.tiers.knowledge import Knowledge, KnowledgePage, LayerFilter
from jiyi.protocol.tiers.quarantine import WorkingState

Limit = Annotated[int, typer.Option(min=1, help="Rows of the page.")]
Offset = Annotated[int, typer.Option(min=0, help="Rows to skip: the next page.")]
SessionName = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
Words = Annotated[str, typer.Option("--words", "-w", help="Words that must occur.")]


@shows
def quarantine(
    client: Client,
    session: SessionName = None,
    words: Words = "",
    refused: Annotated[str | None, typer.Option("--refused", help="Only what this filter refused, e.g. too_short.")] = None,
    limit: Limit = DEFAULT_PAGE,
    offset: Offset = 0,
) -> Shown:
    """What workflows' nodes said that is not in working memory, newest first. Agents never see it."""
    return _listed(client, "quarantine", limit=limit, offset=offset, q=words, **given(session_id=session, reason=refused))


@shows
def knowledge(
    client: Client,
    session: SessionName = None,
    words: Words = "",
    everything: Annotated[bool, typer.Option("--all", help="Of all tiers.")] = False,
    limit: Limit = DEFAULT_PAGE,
    offset: Offset = 0,
) -> Shown:
    """What was promoted: the group's long-term knowledge, newest first."""
    return _listed(client, "all" if everything else "longterm", limit=limit, offset=offset, q=words, **given(session_id=session))


@shows
def working(client: Client) -> Shown:
    """What is in working memory now, newest first, and what the filters have counted."""
    state = client.tiers.working()
    return Shown(state, lambda: _print_working(client.group, state))


def _print_working(group: str, state: WorkingState) -> None:
    made = output.table(f"{group}: working memory", "id", "said", "until", "by", "entry", grow=["entry"])
    fixed = [(item.item_id, output.local_time(item.created_at), output.local_time(item.expires_at), item.agent_id) for item in state.rows]
    tables.fill(made, fixed, [item.content for item in state.rows])
    output.show(made)
    refused = ", ".join(f"{reason} {count:,}" for reason, count in state.rejections.items())
    output.notice(f"refused so far: {refused}" if refused else "nothing was refused so far")


def _listed(client: Client, layer: LayerFilter, **wanted: Any) -> Shown:
    page = client.tiers.knowledge(layer=layer, **wanted)
    return Shown(page, lambda: _print_page(f"{client.group}: {layer}", page))


def _print_page(title: str, page: KnowledgePage) -> None:
    made = output.table(title, "id", "said", "by", "state", "entry", grow=["entry"])
    fixed = [(row.entry_id, output.local_time(row.created_at), row.agent_id, _state(row)) for row in page.rows]
    tables.fill(made, fixed, [row.content for row in page.rows])
    counts = ", ".join(f"{name} {count:,}" for name, count in page.counts.items())
    output.listing(made, page.next, "--offset", f"nothing here ({counts})")
    if page.rows:
        output.notice(counts)


def _state(row: Knowledge) -> str:
    if row.layer != "quarantine":
        return row.kind if row.layer == "longterm" else row.layer
    return row.rejected or "expired"
