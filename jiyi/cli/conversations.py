"""``jiyi command``: the commands on what is remembered of conversations, and on growth, by their names."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic_core import from_json

from jiyi.cli import output
from jiyi.cli.commands import Shown, shows
from jiyi.client.client import Client
from jiyi.errors import InvalidRequest
from jiyi.protocol.conversations.catalogue import COMMANDS
from jiyi.protocol.growth.catalogue import COMMANDS as GROWTH


@shows
def command(
    client: Client,
    name: Annotated[str, typer.Argument(help="Such as viking_ls or schedule_create; see docs/conversations.md and docs/growth.md.")],
    request: Annotated[str, typer.Argument(help='Its request as JSON, such as \'{"uri": "agent://companion"}\'.')] = "{}",
) -> Shown:
    """Give a command on what is remembered of conversations, or on what agents do by themselves."""
    if name not in COMMANDS and name not in GROWTH:
        raise InvalidRequest([f"name: no command {name!r}; there are {', '.join([*COMMANDS, *GROWTH])}"])
    try:
        fields = from_json(request)
    except ValueError as error:
        raise InvalidRequest([f"request: no JSON: {error}"]) from None
    if not isinstance(fields, dict):
        raise InvalidRequest(["request: must be a JSON object"])
    found = client.growth.command(name, **fields) if name in GROWTH else client.conversations.command(name, **fields)
    return Shown(found, lambda: output.line(found.model_dump_json(indent=2)))
