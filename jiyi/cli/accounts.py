"""``jiyi keys`` and ``people``: makes secrets and hashes passwords here, so that neither travels."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, cast

import typer

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, duration, shows
from jiyi.client.by_hand import DEFAULT_GRACE, DEFAULT_SCOPES, CreatedKey
from jiyi.client.calls import checked
from jiyi.client.client import Client
from jiyi.protocol.accounts import AddPerson, Person, Role, hash_password, make_password
from jiyi.protocol.wire.signatures import SCOPES, KeyScope

SHOWN_ONCE = "copy it now: it is not shown again"


@shows
def create_key(
    client: Client,
    name: Annotated[str, typer.Argument(help="What it is for, such as crawler.")],
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            help=f"What it may: {', '.join(SCOPES)}. May be repeated.",
            show_default=" and ".join(DEFAULT_SCOPES),
        ),
    ] = None,
    expires: Annotated[
        timedelta | None,
        typer.Option(parser=duration, metavar="90d", help="How long it works.", show_default="for good"),
    ] = None,
) -> CommandResult:
    """Make an API key of the group (--group), shown once. With the scope operator it is for all groups."""
    expires_at = None if expires is None else datetime.now(UTC) + expires
    return _created(
        client.keys.create(
            name, scopes=cast("list[KeyScope]", scopes or DEFAULT_SCOPES), expires_at=expires_at
        )
    )


@shows
def rotate_key(
    client: Client,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the key to replace.")],
    grace: Annotated[
        timedelta,
        typer.Option(
            parser=duration, metavar="24h", help="How long the old one works on.", show_default="24h"
        ),
    ] = DEFAULT_GRACE,
) -> CommandResult:
    """A new key with the same rights, shown once; the old one works on for a while."""
    return _created(client.keys.rotate(key_id, grace=grace))


def _created(created: CreatedKey) -> CommandResult:
    return CommandResult({"key": created.text, **created.key.model_dump()}, lambda: _print_created(created))


def _print_created(created: CreatedKey) -> None:
    key = created.key
    output.line(created.text)
    where = "every group" if key.group_id is None else f"the group {key.group_id}"
    until = "" if key.expires_at is None else f" until {output.local_time(key.expires_at)}"
    output.notice(f"{key.name}: may {', '.join(key.scopes)} in {where}{until}; {SHOWN_ONCE}")


Name = Annotated[str, typer.Argument(help="Letters, digits and . @ + - _")]
Generate = Annotated[
    bool, typer.Option("--generate", help="Make a password and print it, instead of asking for one.")
]


@shows
def add_person(
    client: Client,
    name: Name,
    role: Annotated[
        Role, typer.Option(help="operator: everything; admin: everything within groups; viewer: look.")
    ],
    groups: Annotated[list[str] | None, typer.Option(help="Only this group. May be repeated.")] = None,
    all_groups: Annotated[
        bool, typer.Option(help="Every group, those of other tenants and later ones included.")
    ] = False,
    generate: Generate = False,
) -> CommandResult:
    """Add somebody, with --groups or --all-groups unless an operator. Asks for the password, twice."""
    access = {"groups": groups or None, "all_groups": all_groups}
    checked(
        AddPerson, name=name, role=role, password_hash=hash_password("only to look at the rest"), **access
    )
    if all_groups and role != "operator":
        output.notice(f"{name} will see every group, those of other tenants and later ones included")
    password = _password(generate=generate)
    person = client.people.add(name, password, role=role, groups=groups or None, all_groups=all_groups)
    return _done(person, f"{name} may sign in", password if generate else None)


@shows
def set_password(client: Client, name: Name, generate: Generate = False) -> CommandResult:
    """A new password. Signs out who is signed in under the name, and opens a lock after wrong passwords."""
    password = _password(generate=generate)
    return _done(
        client.people.set_password(name, password),
        f"{name} has a new password",
        password if generate else None,
    )


def _password(*, generate: bool) -> str:
    """Asked for at the terminal, or the first line of what is piped in."""
    if generate:
        return make_password()
    if sys.stdin.isatty():
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")


def _done(person: Person, message: str, password: str | None = None) -> CommandResult:
    """``password`` was made here, and is shown."""
    if password is None:
        return CommandResult(person, lambda: output.line(message))

    def view() -> None:
        output.line(password)
        output.notice(f"{message}: with this password, which is shown this once")

    return CommandResult({**person.model_dump(), "password": password}, view)
