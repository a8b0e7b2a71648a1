"""``jiyi context``: a prompt with what the group knows."""

from __future__ import annotations

from typing import Annotated

import typer

from jiyi.cli import output
from jiyi.cli.shell import Json, connect, given
from jiyi.cli.tiers.lists import SessionName
from jiyi.text.prompt import BUDGET


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
        made = client.tiers.context(proposal, system=system, persona=persona, budget=budget, **options)
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
