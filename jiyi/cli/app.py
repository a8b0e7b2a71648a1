"""All commands in one place, and ``jiyi command``: any action by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic_core import from_json, to_jsonable_python
from rich.text import Text

import jiyi
from jiyi.cli import (
    accounts,
    connect,
    erasure,
    memory,
    models,
    observe,
    operations,
    output,
    reflection,
    retrieval,
    service,
    stores,
    tiers,
    transfer,
)
from jiyi.cli import ways_in as _ways_in  # noqa: F401 – registers its commands
from jiyi.cli.shell import Commands, Session, Shown, shows
from jiyi.client.client import Client
from jiyi.errors import InvalidRequest, unknown
from jiyi.protocol.actions import ALIASES, ALIASES_OF, TABLE, name_of

#: Cells by which what is inside of a field stands further right than its name.
INDENT = 2


@shows
def command(
    client: Client,
    name: Annotated[str | None, typer.Argument(help="Such as resources.list or appointments.create; without one, all are listed.")] = None,
    request: Annotated[list[str] | None, typer.Argument(help="What it takes: field=value …, or one JSON object.")] = None,
) -> Shown:
    """Do or ask anything by its name, or by an alias (memory_store, viking_ls …); without a name, list what there is."""
    if name is None:
        actions = [{"name": each.name, "aliases": ALIASES_OF[each.name], "takes": _fields(each.request)} for each in TABLE.values()]
        return Shown(actions, lambda: _list(actions))
    declared = TABLE.get(name_of(name))
    if declared is None:
        raise InvalidRequest([f"name: {unknown(name, [*TABLE, *ALIASES], 'command')} (`jiyi command` lists them)"])
    result = to_jsonable_python(client.command(name, **_request(declared.request, request or [])))
    return Shown(result, lambda: output.stdout().print(Text("\n".join(_lines(result))), soft_wrap=True))


def _request(model: type[BaseModel], words: Sequence[str]) -> dict[str, Any]:
    """What the words say: one JSON object, or fields with their values."""
    if len(words) == 1 and words[0].lstrip().startswith(("{", "[")):
        try:
            fields = from_json(words[0])
        except ValueError as error:
            raise InvalidRequest([f"request: no JSON: {error}"]) from None
        if not isinstance(fields, dict):
            raise InvalidRequest(["request: must be a JSON object"])
        return fields
    if wrong := [word for word in words if not word.partition("=")[1]]:
        raise InvalidRequest([f"request: {output.plain(word)!r} is neither field=value nor a JSON object" for word in wrong])
    return {field: _value(model, field, text) for field, _, text in (word.partition("=") for word in words)}


def _value(model: type[BaseModel], field: str, text: str) -> Any:
    """Text where the field takes text; otherwise what it says in JSON, such as a number or a list."""
    declared = model.model_fields.get(field)
    if declared is not None and _takes_text(declared.annotation):
        return text
    try:
        return from_json(text)
    except ValueError:
        return text  # such as a date, or one of several words: the request's check knows


def _takes_text(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(_takes_text(option) for option in get_args(annotation))
    return annotation is str


def _fields(model: type[BaseModel]) -> str:
    """Its fields, the required ones first, the others in brackets."""
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    return " ".join([*required, *(f"[{name}]" for name in model.model_fields if name not in required)])


def _list(actions: Sequence[Mapping[str, Any]]) -> None:
    table = output.table("", "command", "takes", "also called", grow=["takes", "also called"])
    for action in actions:
        output.row(table, action["name"], action["takes"], " ".join(action["aliases"]))
    output.show(table)


def _lines(content: Any, indent: int = 0) -> Iterator[str]:
    """Fields with their values, what is inside of them below and further right; what is empty is left out."""
    margin, inside = " " * indent, indent + INDENT
    pairs = content.items() if isinstance(content, Mapping) else (("-", each) for each in content)
    for name, value in pairs:
        label = name if name == "-" else f"{name}:"
        if isinstance(value, Mapping | list) and value:
            lines = _lines(value, inside)
            yield f"{margin}- {next(lines, '').lstrip()}".rstrip() if name == "-" else f"{margin}{label}"
            yield from lines
        elif value not in (None, "", [], {}):
            head, *rest = output.block(str(value)).splitlines() or [""]
            yield f"{margin}{label} {head}"
            yield from (f"{' ' * inside}{more}" for more in rest)


app = typer.Typer(
    name="jiyi",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(value: bool) -> None:
    if value:
        output.line(f"jiyi {jiyi.__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Group (tenant) to speak for.", show_default="JIYI_GROUP, or default")
    ] = None,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True, show_default=False)
    ] = False,
) -> None:
    """Jiyi 记忆: memory for AI agents. Tell it what happened, ask it what matters."""
    ctx.obj = Session(group=group)


TALKING, LOOKING, RUNNING = "Tell and ask", "Look inside", "Run and move"
for function, panel in (
    (observe.observe, TALKING),
    (retrieval.retrieve, TALKING),
    (observe.configure, TALKING),
    (reflection.end_session, TALKING),
    (reflection.reflect, TALKING),
    (reflection.why, LOOKING),
    (retrieval.retrievals, LOOKING),
    (memory.nodes, LOOKING),
    (memory.keywords, LOOKING),
    (memory.related, LOOKING),
    (memory.agents, LOOKING),
    (operations.stats, LOOKING),
    (service.doctor, LOOKING),
    (models.llms, LOOKING),
    (operations.jobs, LOOKING),
    (models.embedders, LOOKING),
    (service.up, RUNNING),
    (service.mcp, RUNNING),
    (service.proxy, RUNNING),
    (connect.connect, RUNNING),
    (models.reembed, RUNNING),
    (operations.run_job, RUNNING),
    (command, TALKING),
    (tiers.ingest, TALKING),
    (tiers.recall, TALKING),
    (tiers.context, TALKING),
    (tiers.promote, TALKING),
    (tiers.demote, TALKING),
    (tiers.edit, TALKING),
    (tiers.check, TALKING),
    (tiers.quarantine, LOOKING),
    (tiers.working, LOOKING),
    (tiers.knowledge, LOOKING),
    (tiers.digest, LOOKING),
    (erasure.erase, RUNNING),
    (erasure.erasures, LOOKING),
    (service.backup, RUNNING),
    (service.restore, RUNNING),
):
    app.command(rich_help_panel=panel)(function)
app.add_typer(operations.dead_letters_app, name="dead", rich_help_panel=LOOKING)
app.add_typer(models.prompts, name="prompts", rich_help_panel=LOOKING)
app.add_typer(stores.app, name="stores", rich_help_panel=TALKING)
app.add_typer(accounts.keys_app, name="keys", rich_help_panel=RUNNING)
app.add_typer(accounts.users_app, name="users", rich_help_panel=RUNNING)
app.add_typer(memory.archive_app, name="archive", rich_help_panel=RUNNING)
app.add_typer(transfer.import_app, name="import", rich_help_panel=RUNNING)
app.add_typer(transfer.export_app, name="export", rich_help_panel=RUNNING)
