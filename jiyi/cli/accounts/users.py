"""``jiyi users``: people who sign in to the admin. Passwords are hashed here; only the hash travels."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from jiyi.accounts.passwords import hash_password, make_password, password_problem
from jiyi.cli import output
from jiyi.cli.shell import Json, checked, connect
from jiyi.errors import InvalidRequest
from jiyi.protocol import accounts
from jiyi.protocol.accounts import User

app = typer.Typer(no_args_is_help=True, help="People who sign in to the admin.")

Name = Annotated[str, typer.Argument(help="Letters, digits and . @ + - _")]
Generate = Annotated[bool, typer.Option("--generate", help="Make a password and print it, instead of asking for one.")]


class Role(StrEnum):
    """What a person may: everything, everything in their groups, or look."""

    OPERATOR = "operator"
    ADMIN = "admin"
    VIEWER = "viewer"


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
        asked = {"group_id": client.group, "name": name, "role": role.value, "groups": groups or None}
        checked(accounts.AddUserQuery, password_hash=hash_password("only to look at the rest"), **asked)
        password = _password(generate=generate)
        query = checked(accounts.AddUserQuery, password_hash=hash_password(password), **asked)
        user = User.model_validate(client.ask("add_user", query))
    _tell(user, f"{name} may sign in", password if generate else None, as_json=as_json)


@app.command()
def passwd(ctx: typer.Context, name: Name, generate: Generate = False, as_json: Json = False) -> None:
    """A new password. Whoever is signed in under the name is signed out; a lock after wrong passwords opens."""
    with connect(ctx) as client:
        password = _password(generate=generate)
        query = checked(accounts.PasswordQuery, group_id=client.group, name=name, password_hash=hash_password(password))
        user = User.model_validate(client.ask("password", query))
    _tell(user, f"{name} has a new password", password if generate else None, as_json=as_json)


@app.command("list")
def list_users(ctx: typer.Context, as_json: Json = False) -> None:
    """Everybody, and when they were last seen."""
    with connect(ctx) as client:
        found = accounts.rows(client.ask("users", checked(accounts.UsersQuery, group_id=client.group)), User)
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
    _switch(ctx, name, enable=False, as_json=as_json)


@app.command()
def enable(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Somebody who was disabled may sign in again."""
    _switch(ctx, name, enable=True, as_json=as_json)


def _switch(ctx: typer.Context, name: str, *, enable: bool, as_json: bool) -> None:
    with connect(ctx) as client:
        query = checked(accounts.DisableUserQuery, group_id=client.group, name=name, enable=enable)
        user = User.model_validate(client.ask("disable_user", query))
    _tell(user, f"{name} {'may sign in again' if enable else 'is disabled'}", None, as_json=as_json)


def _password(*, generate: bool) -> str:
    """Asked for at the terminal, or the first line of what is piped in.

    Raises:
        InvalidRequest: it is too short or too long.
    """
    if generate:
        return make_password()
    if sys.stdin.isatty():
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    problem = password_problem(password)
    if problem:
        raise InvalidRequest([f"password: {problem}"])
    return password


def _tell(user: User, done: str, password: str | None, *, as_json: bool) -> None:
    if as_json:
        output.document(user.model_dump(mode="json") | ({} if password is None else {"password": password}))
        return
    if password is None:
        output.line(done)
        return
    output.line(password)
    output.notice(f"{done}: with this password, which is shown this once")
