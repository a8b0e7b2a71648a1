"""``jiyi ingest`` and ``jiyi recall``: a text for the memory, and a question to it."""

from __future__ import annotations

from typing import Annotated

import typer

from jiyi.cli import output
from jiyi.cli.shell import Json, connect, given
from jiyi.cli.tiers import tables
from jiyi.cli.tiers.lists import SessionName
from jiyi.protocol.tiers.quarantine import IngestState
from jiyi.protocol.tiers.query import MemoryAnswer, Order


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
    days: Annotated[float | None, typer.Option(help="Of working memory, only what is not older.")] = None,
    session: SessionName = None,
    agent: Annotated[str | None, typer.Option(help="Also what only this agent knows.")] = None,
    verdicts: Annotated[bool, typer.Option("--verdicts/--no-verdicts", help="Whether verdicts count.")] = True,
    web: Annotated[int, typer.Option(min=0, help="Results of a web search besides.")] = 0,
    news: Annotated[bool, typer.Option("--news", help="Search the web for news.")] = False,
    domains: Annotated[list[str] | None, typer.Option("--domain", help="Of the web only this domain; may be given again.")] = None,
    as_json: Json = False,
) -> None:
    """Ask working and long-term memory of the group."""
    options = given(max_results=most, relevance_threshold=threshold, time_range_days=days, session_id=session, agent_id=agent)
    if web:
        options |= {"web_results": web, "search_type": "news" if news else "general", "domains": domains or ()}
    with connect(ctx) as client:
        answer = client.query_memory(query, order=order, include_verdicts=verdicts, **options)
    if as_json:
        output.document(answer.model_dump(mode="json"))
        return
    _show_answer(answer)


def _show_answer(answer: MemoryAnswer) -> None:
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
    tables.fill(made, fixed, [item.content for item in answer.results])
    if answer.results:
        output.stdout().print(made)
    else:
        output.notice("nothing is known about this")
    if answer.web_answer:
        output.notice(f"the search engine says: {answer.web_answer}")
    for tier in answer.tiers:
        if tier.message or tier.state != "ok":
            output.notice(f"{tier.tier} {tier.state}: {tier.message}")
