"""The commands of the three tiers (``docs/workflows.md``): ask and ingest, put a prompt together, promote and check, list."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.shell import Cursor, Json, Limit, Shown, connect, given, shows
from jiyi.client.client import Client
from jiyi.protocol.base import DEFAULT_PAGE
from jiyi.protocol.knowledge import DigestState, IngestState, Knowledge, KnowledgePage, LayerFilter, Promoted, WorkingMemory
from jiyi.protocol.tier_questions import Kind, MemoryAnswer, Order
from jiyi.text.prompt import BUDGET

#: Lines of an entry before it is cut.
MAX_LINES = 3
#: Cells that what is said has at least, beside the other columns.
LEAST_ROOM = 30


def fill(made: Table, fixed: list[tuple[Any, ...]], texts: list[str]) -> None:
    """Rows whose last cell takes what the others leave."""
    names = [str(column.header) for column in made.columns]
    widths = [max([len(name), *(output.cell_text(row[place]).cell_len for row in fixed)]) for place, name in enumerate(names[:-1])]
    room = max(output.room(output.stdout().width, *widths), LEAST_ROOM)
    for cells, content in zip(fixed, texts, strict=True):
        output.row(made, *cells, output.cut(content, room, MAX_LINES))


SessionName = Annotated[str | None, typer.Option("--session", help="Only of this session.")]
Words = Annotated[str, typer.Option("--words", "-w", help="Words that must occur.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the history.")]


class Verdict(StrEnum):
    """What a check came to."""

    TRUE = "true"
    REFUTED = "refuted"


@shows
def ingest(
    client: Client,
    text: Annotated[str, typer.Argument(help="What was said.")],
    session: Annotated[str | None, typer.Option(help="Name of the session it belongs to.")] = None,
    agent: Annotated[str | None, typer.Option(help="Who said it.")] = None,
    node: Annotated[str | None, typer.Option(help="Which node of a workflow.")] = None,
    confidence: Annotated[float | None, typer.Option(min=0, max=1, help="How sure it is.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when the filters have decided.")] = True,
) -> Shown:
    """Put a text into quarantine, and into working memory if the filters let it in; prints its id."""
    fields = given(session_id=session, agent_id=agent, node_id=node, confidence=confidence)
    done = client.ingest(text, wait=wait, **fields)
    if not isinstance(done, IngestState):
        return Shown({"entry_id": done}, lambda: output.line(str(done)))

    def view() -> None:
        output.line(str(done.entry_id))
        output.notice("in working memory" if done.accepted else f"in quarantine only: {done.message}")

    return Shown(done, view)


@shows
def recall(
    client: Client,
    query: Annotated[str, typer.Argument(help="What the group's memory is to be about.")],
    most: Annotated[int | None, typer.Option("--max-results", "-k", min=1, help="How many in all.")] = None,
    order: Annotated[Order, typer.Option(help="Working memory first, or the most similar.")] = "tier",
    threshold: Annotated[float | None, typer.Option(min=-1, max=1, help="Least similarity of long-term memories.")] = None,
    days: Annotated[float | None, typer.Option(help="Of working memory, only what is not older.")] = None,
    session: SessionName = None,
    agent: Annotated[str | None, typer.Option(help="Also what only this agent knows.")] = None,
    verdicts: Annotated[bool, typer.Option("--verdicts/--no-verdicts", help="Whether verdicts count.")] = True,
    web: Annotated[int, typer.Option(min=0, help="Results of a web search besides.")] = 0,
    news: Annotated[bool, typer.Option("--news", help="Search the web for news.")] = False,
    domains: Annotated[list[str] | None, typer.Option("--domain", help="Of the web only this domain; may be given again.")] = None,
) -> Shown:
    """Ask working and long-term memory of the group."""
    options = given(max_results=most, relevance_threshold=threshold, time_range_days=days, session_id=session, agent_id=agent)
    if web:
        options |= {"web_results": web, "search_type": "news" if news else "general", "domains": domains or ()}
    answer = client.query_memory(query, order=order, include_verdicts=verdicts, **options)
    return Shown(answer, lambda: _print_answer(answer))


def _print_answer(answer: MemoryAnswer) -> None:
    made = output.table("", "score", "from", "when", "by", "memory", right=["score"], grow=["memory"])
    sources = {"hot": "working", "cold": "long-term", "external": "web"}
    fixed = [
        (
            f"{item.score:.2f}",
            sources[item.source] + ("" if item.verified or item.source != "hot" else " (unverified)"),
            output.local_time(item.created_at),
            item.agent_id,
        )
        for item in answer.results
    ]
    fill(made, fixed, [item.content for item in answer.results])
    output.listing(made, None, "nothing is known about this")
    if answer.web_answer:
        output.notice(f"the search engine says: {answer.web_answer}")
    for tier in answer.tiers:
        if tier.message or tier.state != "ok":
            output.notice(f"{tier.tier} {tier.state}: {tier.message}")


def context(
    ctx: typer.Context,
    proposal: Annotated[str, typer.Argument(help="What is to be decided or answered now.")],
    system: Annotated[str, typer.Option(help="The group's words to all its agents.")] = "",
    persona: Annotated[str, typer.Option(help="Who the agent is.")] = "",
    query: Annotated[str | None, typer.Option(help="What to look for in memory; the proposal unless given.")] = None,
    budget: Annotated[int, typer.Option("--budget", "-b", min=1, help="Tokens at most.")] = BUDGET,
    agent: Annotated[str | None, typer.Option(help="Also what only this agent knows.")] = None,
    session: SessionName = None,
    as_json: Json = False,
) -> None:
    """A whole prompt for an agent, with what the group knows, within a budget of tokens."""
    options = given(query=query, agent_id=agent, session_id=session)
    with connect(ctx) as client:
        made = client.knowledge.context(proposal=proposal, system=system, persona=persona, budget=budget, **options)
    if as_json:
        output.document(made.model_dump(mode="json"))
        return
    output.stdout().print(made.text, markup=False, highlight=False, soft_wrap=True)
    output.notice(f"{made.tokens:,} of {made.budget:,} tokens, {len(made.memories)} memories")
    for sentence in made.cut:
        output.notice(sentence)
    for tier in made.tiers:
        if tier.message or tier.state != "ok":
            output.notice(f"{tier.tier} {tier.state}: {tier.message}")


@shows
def promote(
    client: Client,
    entries: Annotated[list[UUID] | None, typer.Argument(help="Ids of entries of quarantine.", metavar="[ID…]")] = None,
    text: Annotated[str | None, typer.Option(help="This text, for which the entries stand.")] = None,
    agent: Annotated[str | None, typer.Option(help="Known to this agent alone, not to the group.")] = None,
    kind: Annotated[Kind, typer.Option(help="What it is.")] = "statement",
    reason: Annotated[str, typer.Option(help="Why, for the history.")] = "",
    preview: Annotated[bool, typer.Option("--preview", "-n", help="Only show the pieces.")] = False,
) -> Shown:
    """Make long-term knowledge of entries, or of a text. Doing it again changes nothing."""
    done = client.knowledge.promote(
        entry_ids=[*(entries or [])], text=text, kind=kind, reason=reason, preview=preview, **given(agent_id=agent)
    )
    return Shown(done, lambda: _print_promoted(done, preview=preview))


@shows
def demote(
    client: Client, ids: Annotated[list[UUID], typer.Argument(help="Ids of knowledge.", metavar="ID…")], reason: Reason = ""
) -> Shown:
    """Take knowledge back: it is not found any more, and keeps its history."""
    gone = client.knowledge.demote(knowledge_ids=[*ids], reason=reason).ids

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
    done = client.quarantine.check(entry_ids=[*entries], verdict=verdict.value, reason=reason).ids

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
    became = client.knowledge.edit(id=knowledge_id, content=content, reason=reason).knowledge_id
    return Shown({"knowledge_id": became}, lambda: output.line(str(became)))


@shows
def digest(
    client: Client,
    days: Annotated[float, typer.Option(min=0.01, help="Of what came in these last days.")] = 7,
    last: Annotated[bool, typer.Option("--last", help="Show the latest one instead of making one.")] = False,
) -> Shown:
    """What quarantine is about, in clusters, for those who promote."""
    if not last:
        made = client.digests.make(days=days)
    elif latest := client.digests.list(limit=1).rows:
        made = latest[0]
    else:
        return Shown(None, lambda: output.notice("there is no digest yet"))
    return Shown(made, lambda: _print_digest(made))


def _print_promoted(done: Promoted, *, preview: bool) -> None:
    made = output.table("would be stored" if preview else "known now", "id", "tokens", "", "piece", right=["tokens"], grow=["piece"])
    fixed = [(piece.knowledge_id, piece.tokens, "known already" if piece.known else "new") for piece in done.pieces]
    fill(made, fixed, [piece.content for piece in done.pieces])
    output.show(made)
    if done.already:
        output.notice(f"{len(done.already):,} of the entries were promoted before")


def _print_digest(found: DigestState) -> None:
    span = f"{output.local_date(found.since)} … {output.local_date(found.until)}, {found.entries:,} entries"
    made = output.table(span, "#", "entries", "sessions", "topic", "summary", right=["#", "entries", "sessions"], grow=["summary"])
    fixed = [(item.number, len(item.entry_ids), item.sessions, output.cut(item.topic, LEAST_ROOM, MAX_LINES)) for item in found.items]
    fill(made, fixed, [item.summary for item in found.items])
    output.listing(made, None, "there is nothing to promote")
    if found.items:
        output.notice("promote one: jiyi digest --last --json gives the ids of its entries")


@shows
def quarantine(
    client: Client,
    session: SessionName = None,
    words: Words = "",
    refused: Annotated[str | None, typer.Option("--refused", help="Only what this filter refused, e.g. too_short.")] = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Shown:
    """What workflows' nodes said that is not in working memory, newest first. Agents never see it."""
    return _listed(client, "quarantine", limit=limit, cursor=cursor, words=words, **given(session_id=session, rejected=refused))


@shows
def knowledge(
    client: Client,
    session: SessionName = None,
    words: Words = "",
    everything: Annotated[bool, typer.Option("--all", help="Of all tiers.")] = False,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Shown:
    """What was promoted: the group's long-term knowledge, newest first."""
    return _listed(client, "all" if everything else "longterm", limit=limit, cursor=cursor, words=words, **given(session_id=session))


@shows
def working(client: Client) -> Shown:
    """What is in working memory now, newest first, and what the filters have counted."""
    state = client.working_memory.show()
    return Shown(state, lambda: _print_working(client.group, state))


def _print_working(group: str, state: WorkingMemory) -> None:
    made = output.table(f"{group}: working memory", "id", "said", "until", "by", "entry", grow=["entry"])
    fixed = [(item.item_id, output.local_time(item.created_at), output.local_time(item.expires_at), item.agent_id) for item in state.rows]
    fill(made, fixed, [item.content for item in state.rows])
    output.show(made)
    refused = ", ".join(f"{reason} {count:,}" for reason, count in state.rejections.items())
    output.notice(f"refused so far: {refused}" if refused else "nothing was refused so far")


def _listed(client: Client, layer: LayerFilter, **wanted: Any) -> Shown:
    page = client.knowledge.list(layer=layer, **wanted)
    return Shown(page, lambda: _print_page(f"{client.group}: {layer}", page))


def _print_page(title: str, page: KnowledgePage) -> None:
    made = output.table(title, "id", "said", "by", "state", "entry", grow=["entry"])
    fixed = [(row.entry_id, output.local_time(row.created_at), row.agent_id, _state(row)) for row in page.rows]
    fill(made, fixed, [row.content for row in page.rows])
    counts = ", ".join(f"{name} {count:,}" for name, count in page.counts.items())
    output.listing(made, page.next, f"nothing here ({counts})")
    if page.rows:
        output.notice(counts)


def _state(row: Knowledge) -> str:
    if row.layer != "quarantine":
        return row.kind if row.layer == "longterm" else row.layer
    return row.rejected or "expired"
