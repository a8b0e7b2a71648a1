"""``jiyi keys``: what programs need to use the REST API, and to sign their events."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, cast

import typer
from rich.text import Text

from jiyi.cli import output
from jiyi.cli.commands import Shown, show, shows
from jiyi.cli.shell import Json, connect, session
from jiyi.client.accounts import DEFAULT_GRACE, DEFAULT_SCOPES, CreatedKey
from jiyi.client.client import Client
from jiyi.protocol.accounts import Key
from jiyi.protocol.wire.signatures import SCOPES, KeyScope

app = typer.Typer(no_args_is_help=True, help="API keys: who may use the REST API, and sign events.")

UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
SHOWN_ONCE = "this is the only time that it is shown; the service keeps nothing that it follows from"


def duration(text: str | timedelta) -> timedelta:
    """``90d``, ``24h``, ``30m``, ``2w``. For ``typer.Option(parser=…)``."""
    if isinstance(text, timedelta):
        return text
    match = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no duration, such as 90d, 24h or 30m")
    return timedelta(seconds=int(match[1]) * UNITS[match[2]])


@app.command()
@shows
def create(
    client: Client,
    name: Annotated[str, typer.Argument(help="What it is for, such as crawler.")],
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", help=f"What it may: {', '.join(SCOPES)}. May be repeated.", show_default=" and ".join(DEFAULT_SCOPES)),
    ] = None,
    expires: Annotated[
        timedelta | None, typer.Option(parser=duration, metavar="90d", help="How long it works.", show_default="for good")
    ] = None,
) -> Shown:
    """A new key for the group (--group), shown once. With the scope operator it is for all groups."""
    expires_at = None if expires is None else datetime.now(UTC) + expires
    return _created(client.keys.create(name, scopes=cast("list[KeyScope]", scopes or DEFAULT_SCOPES), expires_at=expires_at))


@app.command("list")
def list_keys(ctx: typer.Context, as_json: Json = False) -> None:
    """Keys and when they were used: of the group, if one is given with --group, else all."""
    with connect(ctx) as client:
        keys = client.keys.list(all_groups=session(ctx).group is None)
    show(Shown(keys, lambda: _print_keys(keys)), as_json=as_json)


def _print_keys(found: list[Key]) -> None:
    now = datetime.now(UTC)
    table = output.table("", "id", "group", "name", "may", "state", "expires", "used", grow=["group", "name", "may"], right=["used"])
    for key in found:
        group = Text("all", "dim") if key.group_id is None else key.group_id
        output.row(
            table,
            key.key_id,
            group,
            key.name,
            " ".join(key.scopes),
            key.state,
            None if key.expires_at is None else output.local_date(key.expires_at),
            "never" if key.last_used_at is None else f"{output.age(key.last_used_at, now)} ago",
        )
    output.listing(table, None, "", "no keys; make one with `jiyi keys create NAME`")


@app.command()
@shows
def revoke(client: Client, key_id: Annotated[str, typer.Argument(metavar="ID", help="Its id.")]) -> Shown:
    """End a key, for good. It may work for five more seconds."""
    key = client.keys.revoke(key_id)
    return Shown(key, lambda: output.line(f"{key.key_id} ({key.name}) is revoked"))


@app.command()
@shows
def rotate(
    client: Client,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the key to replace.")],
    grace: Annotated[
        timedelta, typer.Option(parser=duration, metavar="24h", help="How long the old one works on.", show_default="24h")
    ] = DEFAULT_GRACE,
) -> Shown:
    """A new key with the same rights, shown once; the old one works on for a while."""
    return _created(client.keys.rotate(key_id, grace=grace))


def _created(created: CreatedKey) -> Shown:
    return Shown({"key": created.text, **created.key.model_dump()}, lambda: _print_created(created))


def _print_created(created: CreatedKey) -> None:
    key = created.key
    output.line(created.text)
    where = "every group" if key.group_id is None else f"the group {key.group_id}"
    until = "" if key.expires_at is None else f" until {output.local_time(key.expires_at)}"
    output.notice(f"{key.name}: may {', '.join(key.scopes)} in {where}{until}; {SHOWN_ONCE}")
