"""``jiyi keys`` and ``users``: what programs need to use the REST API and sign their events, and people who sign in to the admin.

Passwords are hashed here; only the hash travels.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, cast

import typer
from rich.table import Table
from rich.text import Text

from jiyi.cli import output
from jiyi.cli.shell import Json, Shown, connect, session, show, shows
from jiyi.client.by_hand import DEFAULT_GRACE, DEFAULT_SCOPES, CreatedKey
from jiyi.client.calls import checked
from jiyi.client.client import Client
from jiyi.protocol.accounts import AddPerson, Key, Person, Role, hash_password, make_password
from jiyi.protocol.wire.signatures import SCOPES, KeyScope

keys_app = typer.Typer(no_args_is_help=True, help="API keys: who may use the REST API, and sign events.")

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


@keys_app.command()
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


@keys_app.command("list")
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
    output.listing(table, None, "no keys; make one with `jiyi keys create NAME`")


@keys_app.command()
@shows
def revoke(client: Client, key_id: Annotated[str, typer.Argument(metavar="ID", help="Its id.")]) -> Shown:
    """End a key, for good. It may work for five more seconds."""
    key = client.keys.revoke(id=key_id)
    return Shown(key, lambda: output.line(f"{key.key_id} ({key.name}) is revoked"))


@keys_app.command()
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


users_app = typer.Typer(no_args_is_help=True, help="People who sign in to the admin.")

Name = Annotated[str, typer.Argument(help="Letters, digits and . @ + - _")]
Generate = Annotated[bool, typer.Option("--generate", help="Make a password and print it, instead of asking for one.")]


@users_app.command()
@shows
def add(
    client: Client,
    name: Name,
    role: Annotated[Role, typer.Option(help="operator: everything; admin: everything within groups; viewer: look.")],
    groups: Annotated[list[str] | None, typer.Option("--group", "-g", help="Only this group. May be repeated.")] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="Every group, those of other tenants and later ones included.")] = False,
    generate: Generate = False,
) -> Shown:
    """Add somebody, with --group or --all-groups unless they are an operator. Asks for the password, twice."""
    access = {"groups": groups or None, "all_groups": all_groups}
    checked(AddPerson, name=name, role=role, password_hash=hash_password("only to look at the rest"), **access)
    if all_groups and role != "operator":
        output.notice(f"{name} will see every group, those of other tenants and later ones included")
    password = _password(generate=generate)
    person = client.people.add(name, password, role=role, groups=groups or None, all_groups=all_groups)
    return _done(person, f"{name} may sign in", password if generate else None)


@users_app.command()
@shows
def passwd(client: Client, name: Name, generate: Generate = False) -> Shown:
    """A new password. Whoever is signed in under the name is signed out; a lock after wrong passwords opens."""
    password = _password(generate=generate)
    return _done(client.people.set_password(name, password), f"{name} has a new password", password if generate else None)


@users_app.command("list")
@shows
def list_users(client: Client) -> Shown:
    """Everybody, and when they were last seen."""
    people = client.people.list()
    return Shown(people, lambda: _people(people))


def _people(found: list[Person]) -> Table:
    now = datetime.now(UTC)
    table = output.table("", "name", "role", "groups", "state", "seen", grow=["groups"], right=["seen"])
    for user in found:
        seen = "never" if user.last_seen_at is None else f"{output.age(user.last_seen_at, now)} ago"
        groups = Text("all", "dim") if user.groups is None else ", ".join(user.groups)
        output.row(table, user.name, user.role, groups, "disabled" if user.disabled_at else "active", seen)
    return table


@users_app.command()
@shows
def disable(client: Client, name: Name) -> Shown:
    """Somebody cannot sign in any more, and is signed out."""
    return _done(client.people.disable(name=name), f"{name} is disabled")


@users_app.command()
@shows
def enable(client: Client, name: Name) -> Shown:
    """Somebody who was disabled may sign in again."""
    return _done(client.people.enable(name=name), f"{name} may sign in again")


def _password(*, generate: bool) -> str:
    """Asked for at the terminal, or the first line of what is piped in."""
    if generate:
        return make_password()
    if sys.stdin.isatty():
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")


def _done(person: Person, done: str, password: str | None = None) -> Shown:
    """``password`` was made here, and is shown."""
    if password is None:
        return Shown(person, lambda: output.line(done))

    def view() -> None:
        output.line(password)
        output.notice(f"{done}: with this password, which is shown this once")

    return Shown({**person.model_dump(), "password": password}, view)
