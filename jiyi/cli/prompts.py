"""``jiyi prompts show``: what an LLM would be asked about a session."""

from __future__ import annotations

from typing import Annotated, get_args

import typer
from rich.text import Text

from jiyi.cli import output
from jiyi.cli.shell import Shown, shows
from jiyi.client.client import Client
from jiyi.protocol.conversation_commands import PromptName, ShownPrompts

app = typer.Typer(no_args_is_help=True, help="What an LLM would be asked.")


@app.command()
@shows
def show(
    client: Client,
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(get_args(PromptName))}.")],
    agent: Annotated[str, typer.Option(help="The agent.")],
    session: Annotated[str, typer.Option(help="Its session.")],
    user: Annotated[str | None, typer.Option(help="With which of its users.")] = None,
) -> Shown:
    """Print what would be sent to the LLM for a session. Nothing is sent."""
    found = client.command("prompts.show", name=name, agent_id=agent, session_id=session, user_id=user)
    return Shown(found, lambda: _print(found))


def _print(found: ShownPrompts) -> None:
    for shown in found.prompts:
        output.line(f"{shown.prompt}, about {shown.tokens:,} tokens")
        for message in shown.messages:
            output.stdout().print(Text(f"--- {message.role}\n{output.block(message.content)}"), soft_wrap=True)
