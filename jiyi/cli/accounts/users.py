"""``jiyi users``: people who sign in to the admin. Passwords are hashed here; only the hash travels."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from jiyi.cli import output
from jiyi.cli.commands import Shown, shows
from jiyi.client.calls import checked
from jiyi.client.client import Client
from jiyi.protocol.accounts import AddPerson, Person, Role, hash_password, make_password

app = typer.Typer(no_args_is_help=True, help="People who sign in to the admin.")

Name = Annotated[str, typer.Argument(help="Letters, digits and . @ + - _")]
Generate = Annotated[bool, typer.Option("--generate", help="Make a password and print it, instead of asking for one.")]


@app.command()
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


@app.command()
@shows
def passwd(client: Client, name: Name, generate: Generate = False) -> Shown:
    """A new password. Whoever is signed in under the name is signed out; a lock after wrong passwords opens."""
    password = _password(generate=generate)
    return _done(client.people.set_password(name, password), f"{name} has a new password", password if generate else None)


@app.command("list")
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


@app.command()
@shows
def disable(client: Client, name: Name) -> Shown:
    """Somebody cannot sign in any more, and is signed out."""
    return _done(client.people.disable(name), f"{name} is disabled")


@app.command()
@shows
def enable(client: Client, name: Name) -> Shown:
    """Somebody who was disabled may sign in again."""
    return _done(client.people.enable(name), f"{name} may sign in again")


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
