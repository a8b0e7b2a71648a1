"""Commands that ask the service something and show the answer: each is a function of a client.

Example::

    @shows
    def llms(client: Client, days: Annotated[int, typer.Option(min=1)] = 30) -> Shown:
        found = client.service.llms(days)
        return Shown(found, lambda: llms_tables(client.group, found))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import typer
from rich.console import RenderableType

from jiyi.cli import output, shell
from jiyi.cli.shell import Json


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command has to show."""

    #: With ``--json``: models, or plain data.
    document: Any
    #: For people: prints, or gives what is to be printed.
    view: Callable[[], RenderableType | None]
    #: Raised when it is shown.
    failure: Exception | None = None


def shows(command: Callable[..., Shown]) -> Callable[..., None]:
    """Make a function of a client a command: it is given one for the session's group, and has the option ``--json``."""
    client, *own = inspect.signature(command, eval_str=True).parameters.values()
    assert client.name == "client", f"{command.__name__}: its first parameter is the client"

    @wraps(command)
    def run(ctx: typer.Context, *, as_json: bool, **given: Any) -> None:
        with shell.connect(ctx) as connected:
            shown = command(connected, **given)
        show(shown, as_json=as_json)

    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, annotation=Json, default=False)
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    signature = inspect.Signature([context, *keywords, option])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return run


def show(shown: Shown, *, as_json: bool) -> None:
    """Print it. Raises its failure, if it has one."""
    if as_json:
        output.document(shown.document)
    elif (printed := shown.view()) is not None:
        output.stdout().print(printed)
    if shown.failure is not None:
        raise shown.failure
