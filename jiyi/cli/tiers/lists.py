"""``jiyi quarantine``, ``working``, ``knowledge``: what is in each tier."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.shell import Json, connect, given
from jiyi.cli.tiers import tables
from jiyi.protocol.queries import DEFAULT_PAGE
from jiyi.protocol.tiers.knowledge import Knowledge, KnowledgePage, LayerFilter

Limit = Annotated[int, typer.Option(min=1, help="Rows of the page.")]
Offset = Annotated[int, typer.Option(min=0, help="Rows to skip: the next page.")]
SessionName = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
Words = Annotated[str, typer.Option("--words", "-w", help="Words that must occur.")]


def quarantine(
    ctx: typer.Context,
    session: SessionName = None,
    words: Words = "",
    refused: Annotated[str | None, typer.Option("--refused", help="Only what this filter refused, e.g. too_short.")] = None,
    limit: Limit = DEFAULT_PAGE,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """What workflows' nodes said that is not in working memory, newest first. Agents never see it."""
    _list(ctx, "quarantine", as_json, limit=limit, offset=offset, q=words, **given(session_id=session, reason=refused))


def knowledge(
    ctx: typer.Context,
    session: SessionName = None,
    words: Words = "",
    everything: Annotated[bool, typer.Option("--all", help="Of all tiers.")] = False,
    limit: Limit = DEFAULT_PAGE,
    offset: Offset = 0,
    as_json: Json = False,
) -> None:
    """What was promoted: the group's long-term knowledge, newest first."""
    layer: LayerFilter = "all" if everything else "longterm"
    _list(ctx, layer, as_json, limit=limit, offset=offset, q=words, **given(session_id=session))


def working(ctx: typer.Context, as_json: Json = False) -> None:
    """What is in working memory now, newest first, and what the filters have counted."""
    with connect(ctx) as client:
        state = client.tiers.working()
        group = client.group
    if as_json:
        output.document(state.model_dump(mode="json"))
        return
    made = output.table(f"{group}: working memory", "id", "said", "until", "by", "entry", grow=["entry"])
    fixed = [(item.item_id, output.local_time(item.created_at), output.local_time(item.expires_at), item.agent_id) for item in state.rows]
    tables.fill(made, fixed, [item.content for item in state.rows])
    output.stdout().print(made)
    refused = ", ".join(f"{reason} {count:,}" for reason, count in state.rejections.items())
    output.notice(f"refused so far: {refused}" if refused else "nothing was refused so far")


def _list(ctx: typer.Context, layer: LayerFilter, as_json: bool, **wanted: Any) -> None:
    with connect(ctx) as client:
        page = client.tiers.knowledge(layer=layer, **wanted)
        group = client.group
    if as_json:
        output.document(page.model_dump(mode="json"))
        return
    output.stdout().print(_page(f"{group}: {layer}", page))
    counts = ", ".join(f"{name} {count:,}" for name, count in page.counts.items())
    output.notice(counts if page.rows else f"nothing here ({counts})")
    if page.next is not None:
        output.notice(f"more: --offset {page.next}")


def _page(title: str, page: KnowledgePage) -> Table:
    made = output.table(title, "id", "said", "by", "state", "entry", grow=["entry"])
    fixed = [(row.entry_id, output.local_time(row.created_at), row.agent_id, _state(row)) for row in page.rows]
    tables.fill(made, fixed, [row.content for row in page.rows])
    return made


def _state(row: Knowledge) -> str:
    if row.layer != "quarantine":
        return row.kind if row.layer == "longterm" else row.layer
    return row.rejected or "expired"
