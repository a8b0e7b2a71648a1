"""``jiyi users``: people who sign in to the admin. Passwords are hashed here; only the hash travels."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from jiyi.accounts.passwords import hash_password, make_password
from jiyi.cli import output
from jiyi.cli.shell import Json, checked, connect
from jiyi.protocol.accounts import AddPerson, Person, Role

app = typer.Typer(no_args_is_help=True, help="People who sign in to the admin.")

Name = Annotated[str, typer.Argument(help="Letters, digits and . @ + - _")]
Generate = Annotated[bool, typer.Option("--generate", help="Make a password and print it, instead of asking for one.")]


@app.command()
def add(
    ctx: typer.Context,
    name: Name,
    role: Annotated[Role, typer.Option(help="operator: everything; admin: everything within groups; viewer: look.")],
    groups: Annotated[list[str] | None, typer.Option("--group", "-g", help="Only this group. May be repeated.", show_default="all")] = None,
    generate: Generate = False,
    as_json: Json = False,
) -> None:
    """Somebody new. Asks for the password, twice."""
    with connect(ctx) as client:
        checked(AddPerson, name=name, role=role, groups=groups or None, password_hash=hash_password("only to look at the rest"))
        password = _password(generate=generate)
        person = client.people.add(name, password, role=role, groups=groups or None)
    _tell(person, f"{name} may sign in", password if generate else None, as_json=as_json)


@app.command()
def passwd(ctx: typer.Context, name: Name, generate: Generate = False, as_json: Json = False) -> None:
    """A new password. Whoever is signed in under the name is signed out; a lock after wrong passwords opens."""
    with connect(ctx) as client:
        password = _password(generate=generate)
        person = client.people.set_password(name, password)
    _tell(person, f"{name} has a new password", password if generate else None, as_json=as_json)


@app.command("list")
def list_users(ctx: typer.Context, as_json: Json = False) -> None:
    """Everybody, and when they were last seen."""
    with connect(ctx) as client:
        found = client.people.list()
    if as_json:
        output.document([user.model_dump(mode="json") for user in found])
        return
    now = datetime.now(UTC)
    made = output.table("", "name", "role", "groups", "state", "seen", grow=["groups"], right=["seen"])
    for user in found:
        seen = "never" if user.last_seen_at is None else f"{output.age(user.last_seen_at, now)} ago"
        groups = Text("all", "dim") if user.groups is None else ", ".join(user.groups)
        output.row(made, user.name, user.role, groups, "disabled" if user.disabled_at else "active", seen)
    output.stdout().print(made)


@app.command()
def disable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Somebody cannot sign in any more, and is signed out."""
    with connect(ctx) as client:
        person = client.people.disable(name)
    _tell(person, f"{name} is disabled", as_json=as_json)


@app.command()
def enable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Somebody who was disabled may sign in again."""
    with connect(ctx) as client:
        person = client.people.enable(name)
    _tell(person, f"{name} may sign in again", as_json=as_json)


def _password(*, generate: bool) -> str:
    """Asked for at the terminal, or the first line of what is piped in."""
    if generate:
        return make_password()
    if sys.stdin.isatty():
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")


def _tell(person: Person, done: str, password: str | None = None, *, as_json: bool) -> None:
    if as_json:
        output.document(person.model_dump(mode="json") | ({} if password is None else {"password": password}))
        return
    if password is None:
        output.line(done)
        return
    output.line(password)
    output.notice(f"{done}: with this password, which is shown this once")
