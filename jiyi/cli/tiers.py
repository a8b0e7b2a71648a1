"""``jiyi ingest``, ``recall``, ``quarantine``, ``working``, ``knowledge``, ``promote``, ``demote``, ``edit``, ``digest``: the
three tiers (``docs/tiers.md``).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.shell import Json, connect, given
from jiyi.protocol.queries import DEFAULT_PAGE
from jiyi.protocol.tiers.digests import DigestState
from jiyi.protocol.tiers.knowledge import Knowledge, KnowledgePage, Promoted
from jiyi.protocol.tiers.quarantine import IngestState
from jiyi.protocol.tiers.query import Kind, MemoryAnswer, Order

#: Lines of an entry before it is cut.
MAX_LINES = 3
#: Cells that what is said has at least, beside the other columns.
LEAST_ROOM = 30

Limit = Annotated[int, typer.Option(min=1, help="Rows of the page.")]
Offset = Annotated[int, typer.Option(min=0, help="Rows to skip: the next page.")]
SessionName = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
Words = Annotated[str, typer.Option("--words", "-w", help="Words that must occur.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.")]


def ingest(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(help="What was said.")],
    session: Annotated[str | None, typer.Option(help="Name of the session it belongs to.")] = None,
    agent: Annotated[str | None, typer.Option(help="Who said it.")] = None,
    node: Annotated[str | None, typer.Option(help="Which node of a workflow.")] = None,
    confidence: Annotated[float | None, typer.Option(min=0, max=1, help="How sure it is.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when the filters have decided.")] = True,
    as_json: Json = False,
) -> None:
    """Put a text into quarantine, and into working memory if the filters let it in; prints its id."""
    fields = given(session_id=session, agent_id=agent, node_id=node, confidence=confidence)
    with connect(ctx) as client:
        done = client.ingest(text, wait=wait, **fields)
    if not isinstance(done, IngestState):
        done = IngestState(entry_id=done, accepted=False, message="not screened yet")
    if as_json:
        output.document(done.model_dump(mode="json") if wait else {"entry_id": str(done.entry_id)})
        return
    output.line(str(done.entry_id))
    if wait:
        output.notice("in working memory" if done.accepted else f"in quarantine only: {done.message}")


def recall(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="What the group's memory is to be about.")],
    most: Annotated[int | None, typer.Option("--max-results", "-k", min=1, help="How many in all.")] = None,
    order: Annotated[Order, typer.Option(help="Working memory first, or the most similar.")] = "tier",
    threshold: Annotated[float | None, typer.Option(min=-1, max=1, help="Least similarity of long-term memories.")] = None,
    days: Annotated[float | None, typer.Option(help="Only what is not older.")] = None,
    session: SessionName = None,
    agent: Annotated[str | None, typer.Option(help="Also what only this agent knows.")] = None,
    verdicts: Annotated[bool, typer.Option("--verdicts/--no-verdicts", help="Whether verdicts count.")] = True,
    web: Annotated[int, typer.Option(min=0, help="Results of a web search besides.")] = 0,
    as_json: Json = False,
) -> None:
    """Ask working and long-term memory of the group."""
    options = given(max_results=most, relevance_threshold=threshold, time_range_days=days, session_id=session, agent_id=agent)
    with connect(ctx) as client:
        answer = client.query_memory(query, order=order, include_verdicts=verdicts, web_results=web, **options)
    if as_json:
        output.document(answer.model_dump(mode="json"))
        return
    _show_answer(answer)


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
    layer = "all" if everything else "longterm"
    _list(ctx, layer, as_json, limit=limit, offset=offset, q=words, **given(session_id=session))


def working(ctx: typer.Context, as_json: Json = False) -> None:
    """What is in working memory now, newest first, and what the filters have counted."""
    with connect(ctx) as client:
        state = client.working()
        group = client.group
    if as_json:
        output.document(state.model_dump(mode="json"))
        return
    made = output.table(f"{group}: working memory", "id", "said", "until", "by", "entry", grow=["entry"])
    fixed = [(item.item_id, output.local_time(item.created_at), output.local_time(item.expires_at), item.agent_id) for item in state.rows]
    _fill(made, fixed, [item.content for item in state.rows])
    output.stdout().print(made)
    refused = ", ".join(f"{reason} {count:,}" for reason, count in state.rejections.items())
    output.notice(f"refused so far: {refused}" if refused else "nothing was refused so far")


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
        done = client.promote(*(entries or []), text=text, kind=kind, note=note, preview=preview, **given(agent_id=agent))
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
        gone = client.demote(*ids, reason=reason)
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
        became = client.edit(knowledge_id, content, reason=reason)
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
        found = client.digests(1) if last else [client.digest(days)]
    if as_json:
        output.document(found[0].model_dump(mode="json") if found else None)
        return
    if not found:
        output.notice("there is no digest yet")
        return
    _show_digest(found[0])


def _list(ctx: typer.Context, layer: str, as_json: bool, **wanted: Any) -> None:
    with connect(ctx) as client:
        page = client.knowledge(layer=layer, **wanted)
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
    _fill(made, fixed, [row.content for row in page.rows])
    return made


def _state(row: Knowledge) -> str:
    if row.layer != "quarantine":
        return row.kind if row.layer == "longterm" else row.layer
    return row.rejected or "expired"


def _fill(made: Table, fixed: list[tuple[Any, ...]], texts: list[str]) -> None:
    """Rows whose last cell takes what the others leave."""
    names = [str(column.header) for column in made.columns]
    widths = [max([len(name), *(output.cell_text(row[place]).cell_len for row in fixed)]) for place, name in enumerate(names[:-1])]
    room = max(output.room(output.stdout().width, *widths), LEAST_ROOM)
    for cells, content in zip(fixed, texts, strict=True):
        output.row(made, *cells, output.cut(content, room, MAX_LINES))


def _show_answer(answer: MemoryAnswer) -> None:
    made = output.table("", "score", "from", "when", "by", "memory", right=["score"], grow=["memory"])
    sources = {"hot": "working", "cold": "long-term", "external": "web"}
    fixed = [
        (
            f"{item.score:.2f}",
            sources[item.source] + ("" if item.verified or item.source != "hot" else " (unverified)"),
            _when(item.created_at),
            item.agent_id,
        )
        for item in answer.results
    ]
    _fill(made, fixed, [item.content for item in answer.results])
    if answer.results:
        output.stdout().print(made)
    else:
        output.notice("nothing is known about this")
    for tier in answer.tiers:
        if tier.message or tier.state != "ok":
            output.notice(f"{tier.tier} {tier.state}: {tier.message}")


def _when(value: datetime | None) -> str:
    return output.local_time(value)


def _show_promoted(done: Promoted, *, preview: bool) -> None:
    made = output.table("would be stored" if preview else "known now", "id", "tokens", "", "piece", right=["tokens"], grow=["piece"])
    fixed = [(piece.knowledge_id, piece.tokens, "known already" if piece.known else "new") for piece in done.pieces]
    _fill(made, fixed, [piece.content for piece in done.pieces])
    output.stdout().print(made)
    if done.already:
        output.notice(f"{len(done.already):,} of the entries were promoted before")


def _show_digest(found: DigestState) -> None:
    span = f"{output.local_date(found.since)} … {output.local_date(found.until)}, {found.entries:,} entries"
    made = output.table(span, "#", "entries", "sessions", "topic", "summary", right=["#", "entries", "sessions"], grow=["summary"])
    fixed = [(item.number, len(item.entry_ids), item.sessions, output.cut(item.topic, LEAST_ROOM, MAX_LINES)) for item in found.items]
    _fill(made, fixed, [item.summary for item in found.items])
    if found.items:
        output.stdout().print(made)
        output.notice("promote one: jiyi digest --last --json gives the ids of its entries")
    else:
        output.notice("there is nothing to promote")
