"""``jiyi SUBJECT VERB``: a command for each action: required fields and ids are arguments, others options."""

from __future__ import annotations

import inspect
import keyword
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

import typer
from pydantic import AliasChoices, AwareDatetime, BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from jiyi.cli import output
from jiyi.cli.shell import (
    CommandResult,
    choices,
    connect,
    duration,
    keyword_only,
    loaded,
    moment,
    show,
    with_parameters,
)
from jiyi.cli.views import view
from jiyi.errors import InvalidRequest
from jiyi.protocol.actions import TABLE, Declaration
from jiyi.protocol.base import JsonObject

SCALARS: dict[Any, Any] = {str: str, int: int, float: float, bool: bool, UUID: str}
#: Types whose text has a form of its own, and what stands for it in the help.
PARSED: dict[Any, dict[str, Any]] = {
    datetime: {"parser": moment, "metavar": "TIME"},
    AwareDatetime: {"parser": moment, "metavar": "TIME"},
    timedelta: {"parser": duration, "metavar": "90d"},
}
#: Answers that are easier to read in a form of their own: action → the function of this package that makes
#: it.
VIEWS = {
    "memory.why": "reflection:why_tree",
    "reflection.get": "reflection:reflection_view",
    "prompts.show": "operations:print_prompts",
    "erasure.get": "erasure:print_state",
}
#: An action that has such a word among the values of a field asks before it does it.
DISCARD = "discard"


def callback_of(name: str) -> Any:
    """The function that is the command of an action: asks it, and shows the answer."""
    action = TABLE[name]
    fields = {_variable(field): field for field in action.request.model_fields}

    def run(ctx: typer.Context, *, as_json: bool, timeout: float | None, **values: Any) -> None:
        yes = values.pop("yes", False)
        arguments = {
            fields[variable]: value for variable, value in values.items() if value not in (None, [], ())
        }
        if not yes and (action.erases or DISCARD in arguments.values()):
            _confirm(action, arguments)
        with connect(ctx) as client:
            result = client.command(name, timeout, **_decoded(action.request, arguments))
        own_view = partial(loaded(VIEWS[name]), result) if name in VIEWS else None
        show(CommandResult(result, own_view or partial(view, result, ctx.obj.words)), as_json=as_json)

    declared = action.request.model_fields
    own = [_parameter(field, each, _place(action.request, field)) for field, each in declared.items()]
    own.sort(key=lambda parameter: get_origin(get_args(parameter.annotation)[0]) is list)
    has_default = action.seconds is not None
    seconds = typer.Option(min=0.1, help="Seconds to wait for the answer.", show_default=has_default)
    own += [keyword_only("timeout", Annotated[float | None, seconds], action.seconds)]
    if action.erases or any(DISCARD in get_args(each.annotation) for each in declared.values()):
        own += [keyword_only("yes", Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")], False)]
    return with_parameters(run, own)


def options_of(model: type[BaseModel], *left_out: str, panel: str | None = None) -> list[inspect.Parameter]:
    """The fields of a request as options, but for those that would be JSON, or are arguments themselves."""
    return [
        _parameter(field, each, False, panel)
        for field, each in model.model_fields.items()
        if field not in left_out and _kind(each.annotation)[0] is not None
    ]


def _variable(field: str) -> str:
    return f"{field}_" if keyword.iskeyword(field) else field


def _place(request: type[BaseModel], field: str) -> bool:
    """Whether a field is an argument: what is required, ids, and an agent where there are no others."""
    each = request.model_fields[field]
    kind, many = _kind(each.annotation)
    if kind is None:
        return False
    if many:
        return kind is UUID and field == next(_lists_of_ids(request))
    if each.is_required():
        return kind is not bool
    others = (other for other in request.model_fields if other != field)
    return field == "agent_id" and not any(_place(request, other) for other in others)


def _lists_of_ids(request: type[BaseModel]) -> Iterator[str]:
    return (name for name, each in request.model_fields.items() if _kind(each.annotation) == (UUID, True))


def _parameter(field: str, each: FieldInfo, argument: bool, panel: str | None = None) -> inspect.Parameter:
    kind, many = _kind(each.annotation)
    default = each.default if not each.is_required() and isinstance(each.default, str | int | float) else None
    options: dict[str, Any] = {"help": each.description or "", "rich_help_panel": panel}
    annotation: Any
    if kind is None:
        annotation, options["metavar"] = str, "JSON"
    elif kind in PARSED:
        annotation = timedelta if kind is timedelta else datetime
        options |= PARSED[kind]
    elif get_origin(kind) is Literal and many:
        annotation = str
        options |= choices(kind)
    else:
        annotation = SCALARS.get(kind, kind)
    if many:
        annotation, default = list[annotation], None
        if isinstance(each.default, list | tuple) and each.default:
            options["show_default"] = " ".join(map(str, each.default))
    if argument:
        options.setdefault("metavar", field.upper())
    if not each.is_required() or kind is bool:
        annotation = annotation | None if default is None or default == "" else annotation
    if default is None or default == "":
        options.setdefault("show_default", False)
    missing = inspect.Parameter.empty if each.is_required() else (None if default == "" else default)
    info = typer.Argument(**options) if argument else typer.Option(*_names(field, each, kind), **options)
    return keyword_only(_variable(field), Annotated[annotation, info], missing)


def _names(field: str, each: FieldInfo, kind: Any) -> list[str]:
    """Its names as an option, such as ``--no-superseded`` of what is yes or no."""
    aliases = each.validation_alias.choices if isinstance(each.validation_alias, AliasChoices) else []
    names = dict.fromkeys([field, *(alias for alias in aliases if isinstance(alias, str))])
    if kind is bool:
        return [f"--{field.replace('_', '-')}/--no-{field.replace('_', '-')}"]
    return [f"--{name.replace('_', '-')}" for name in names]


def _kind(annotation: Any) -> tuple[Any, bool]:
    """What a field takes, without None, and whether it takes several; None for what is written in JSON."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        kinds = {_kind(option) for option in get_args(annotation) if option is not type(None)}
        return kinds.pop() if len(kinds) == 1 else (None, False)
    if get_origin(annotation) in (list, tuple):
        kind, many = _kind(get_args(annotation)[0])
        return (None, False) if many or kind is None else (kind, True)
    if annotation in SCALARS or annotation in PARSED:
        return annotation, False
    if get_origin(annotation) is Literal and all(isinstance(word, str) for word in get_args(annotation)):
        return annotation, False
    return None, False


def _decoded(request: type[BaseModel], arguments: Mapping[str, Any]) -> JsonObject:
    """The values with JSON read; a word that is no JSON stays one: the request's check knows it."""
    in_json = {field for field in arguments if _kind(request.model_fields[field].annotation)[0] is None}
    return {field: _json(value) if field in in_json else value for field, value in arguments.items()}


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError as error:
        if text.lstrip().startswith(("{", "[")):
            raise InvalidRequest([f"{output.plain(text[:40])!r} is no JSON: {error}"]) from None
        return text


def _confirm(action: Declaration, arguments: Mapping[str, Any]) -> None:
    """Ask whether it is meant; without a terminal to ask at, refuse."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"{action.name} cannot be undone: without a terminal to ask at it needs --yes"
        )
    what = ", ".join(f"{field} {output.cell_text(value)}" for field, value in arguments.items())
    if not typer.confirm(f"{action.name} ({what}) cannot be undone. Go on?", err=True):
        output.notice("nothing was changed")
        raise typer.Exit(1)
