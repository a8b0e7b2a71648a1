"""``jiyi ingest`` and ``recall``: what nodes of workflows say, and what the group knows."""

from __future__ import annotations

from typing import Annotated

import typer

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, non_empty, shows
from jiyi.cli.views import view
from jiyi.client.client import Client
from jiyi.protocol.knowledge import IngestState
from jiyi.protocol.tier_questions import Order


@shows
def ingest(
    client: Client,
    text: Annotated[str, typer.Argument(help="What was said.")],
    session: Annotated[str | None, typer.Option(help="Name of the session it belongs to.")] = None,
    agent: Annotated[str | None, typer.Option(help="Who said it.")] = None,
    node: Annotated[str | None, typer.Option(help="Which node of a workflow.")] = None,
    confidence: Annotated[float | None, typer.Option(min=0, max=1, help="How sure it is.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Return only when the filters have decided.")
    ] = True,
) -> CommandResult:
    """Put a text into quarantine, and into working memory if the filters let it in; prints its id."""
    fields = non_empty(session_id=session, agent_id=agent, node_id=node, confidence=confidence)
    state = client.ingest(text, wait=wait, **fields)
    if not isinstance(state, IngestState):
        return CommandResult({"entry_id": state}, lambda: output.line(str(state)))

    def view() -> None:
        output.line(str(state.entry_id))
        output.notice("in working memory" if state.accepted else f"in quarantine only: {state.message}")

    return CommandResult(state, view)


@shows
def recall(
    client: Client,
    query: Annotated[str, typer.Argument(help="What the group's memory is to be about.")],
    most: Annotated[int | None, typer.Option("--max-results", "-k", min=1, help="How many in all.")] = None,
    order: Annotated[Order, typer.Option(help="Working memory first, or the most similar.")] = "tier",
    threshold: Annotated[
        float | None, typer.Option(min=-1, max=1, help="Least similarity of long-term memories.")
    ] = None,
    days: Annotated[float | None, typer.Option(help="Of working memory, only what is not older.")] = None,
    session: Annotated[str | None, typer.Option(help="Only of this session.")] = None,
    agent: Annotated[str | None, typer.Option(help="Also what only this agent knows.")] = None,
    verdicts: Annotated[
        bool, typer.Option("--verdicts/--no-verdicts", help="Whether verdicts count.")
    ] = True,
    web: Annotated[int, typer.Option(min=0, help="Results of a web search besides.")] = 0,
    news: Annotated[bool, typer.Option("--news", help="Search the web for news.")] = False,
    domains: Annotated[
        list[str] | None, typer.Option("--domain", help="Of the web only this domain; may be given again.")
    ] = None,
) -> CommandResult:
    """Ask working and long-term memory of the group."""
    options = non_empty(
        max_results=most,
        relevance_threshold=threshold,
        time_range_days=days,
        session_id=session,
        agent_id=agent,
    )
    if web:
        options |= {
            "web_results": web,
            "search_type": "news" if news else "general",
            "domains": domains or (),
        }
    answer = client.query_memory(query, order=order, include_verdicts=verdicts, **options)
    return CommandResult(answer, lambda: view(answer))
