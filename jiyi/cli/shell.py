"""What all commands share: the session, ``--json``, ``--group``, errors in one line, :func:`shows`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.console import RenderableType
from typer.core import TyperGroup

from jiyi.cli import output
from jiyi.errors import JiyiError, SettingsError, unknown_option
from jiyi.settings import Settings, get_settings

if TYPE_CHECKING:
    from jiyi.client.client import Client

#: Seconds of the units of a duration.
UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
#: Of wrong usage in general: typer has no public name for it.
USAGE: Any = typer.BadParameter.__base__


@dataclass(slots=True)
class Invocation:
    """One run of the command line: the group it speaks for, and whether it answers in JSON."""

    group: str | None = None
    json: bool = False
    #: Its words, without the program's name.
    words: tuple[str, ...] = ()


class UnusableFile(JiyiError):  # noqa: N818 – its name says what happened
    """A file that cannot be read or written."""

    code = "file"


class InvalidFile(JiyiError, ValueError):  # noqa: N818 – its name says what happened
    """A file whose lines are not all events; ``problems`` has a sentence for each of the first ones."""

    code = "invalid_event"

    def __init__(self, message: str, problems: list[str]) -> None:
        super().__init__(message)
        self.problems = problems


class Root(TyperGroup):
    """The root of all commands. An expected failure becomes one line on stderr and exit code 1."""

    #: Where a context keeps the words of the command line.
    WORDS = "jiyi.words"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """``--group`` is the root's option, and may stand behind the command as well."""
        ctx.meta[self.WORDS] = tuple(args)
        return super().parse_args(ctx, group_first(args))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except JiyiError as error:
            report_error(error, ctx.obj)
        except USAGE as error:
            raise _as_elsewhere(error) from None
        except typer.Abort:  # Ctrl-C at a question
            raise KeyboardInterrupt from None
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            report_error(UnusableFile(f"{where}{error.strerror or error}"), ctx.obj)
        raise typer.Exit(1)


def _as_elsewhere(error: Any) -> Exception:
    """An unknown option, in the words that REST and MCP use for one; any other error unchanged."""
    if not hasattr(error, "possibilities") or error.ctx is None:
        return error  # type: ignore[no-any-return]
    options = [option for parameter in error.ctx.command.params for option in parameter.opts]
    names = {option for option in options if option.startswith("--")}
    return USAGE(unknown_option(error.option_name, names), ctx=error.ctx)  # type: ignore[no-any-return]


def group_first(args: list[str]) -> list[str]:
    """The arguments with every ``--group NAME`` moved to the front; what follows ``--`` is left alone."""
    end = args.index("--") if "--" in args else len(args)
    first: list[str] = []
    others: list[str] = []
    rest = iter(args[:end])
    for arg in rest:
        if arg in ("--group", "-g"):
            first += [arg, *([value] if (value := next(rest, None)) is not None else [])]
        elif arg.startswith("--group="):
            first.append(arg)
        else:
            others.append(arg)
    return [*first, *others, *args[end:]]


def report_error(error: JiyiError, invocation: Invocation | None) -> None:
    output.notice(f"jiyi: {error}")
    if invocation is not None and invocation.json:
        problems = list(getattr(error, "problems", []))
        output.document({"error": {"code": error.code, "message": str(error), "problems": problems}})


def _answer_in_json(ctx: typer.Context, value: bool) -> bool:
    if value:
        ctx.obj.json = True
    return value


Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON document instead.",
        callback=_answer_in_json,
        is_eager=True,
        show_default=False,
    ),
]


def choices(kind: Any) -> dict[str, Any]:
    """Of an option that is given once for each of some words: typer has lists of enumerations only."""
    words = get_args(kind)

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return {"metavar": "|".join(words), "autocompletion": complete}


def loaded(place: str) -> Any:
    """What ``module:name`` is, of a module of this package."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"jiyi.cli.{module}"), name)


def connect(ctx: typer.Context, group: str | None = None) -> Client:
    """A client for the session's group. Raises :class:`SettingsError` for an address that is none."""
    from jiyi.client.client import Client  # here, because help needs nothing of it

    settings = get_settings()
    try:
        if not settings.url:
            with suppress(ModuleNotFoundError):  # the client says which extra is missing
                import kombu  # here, because over HTTP nothing needs it

                kombu.Connection(settings.need("broker_url")).get_transport_cls()
        return Client(group or ctx.obj.group, settings=settings)
    except JiyiError:
        raise
    except (KeyError, ValueError, ImportError) as error:
        reason = error.args[0] if error.args else error
        raise SettingsError(f"JIYI_BROKER_URL or JIYI_REDIS_URL cannot be used: {reason}") from None


Url = Annotated[
    str | None, typer.Option(help="Of the service.", show_default="JIYI_URL, or the one on this machine")
]


def address_of(settings: Settings, url: str | None) -> str:
    """The service's address: as given, as set, or of this machine."""
    return url or settings.url or f"http://127.0.0.1:{settings.web_port}"


def moment(text: str | datetime) -> datetime:
    """An ISO 8601 date or time; local time unless it names its offset. For ``typer.Option(parser=…)``."""
    if isinstance(text, datetime):
        return text
    with suppress(ValueError, OverflowError, OSError):
        parsed = datetime.fromisoformat(text)
        return parsed if parsed.tzinfo else parsed.astimezone()
    raise typer.BadParameter(
        f"{text!r} is no ISO 8601 date or time, such as 2026-03-02 or 2026-03-02T07:15:00+08:00"
    )


def duration(text: str | timedelta) -> timedelta:
    """``90d``, ``24h``, ``30m``, ``2w``. For ``typer.Option(parser=…)``."""
    if isinstance(text, timedelta):
        return text
    match = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no duration, such as 90d, 24h or 30m")
    return timedelta(seconds=int(match[1]) * UNITS[match[2]])


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command has to show."""

    #: With ``--json``: models, or plain data.
    document: Any
    #: For people: prints, or gives what is to be printed.
    view: Callable[[], RenderableType | None]
    #: Raised when it is shown.
    failure: Exception | None = None


def shows(
    command: Callable[..., CommandResult], options: Sequence[inspect.Parameter] = ()
) -> Callable[..., None]:
    """Make a function of a client a command: gives it one for the session's group, and adds ``--json``.

    ``options``: more of its arguments, given to it where they differ from their defaults.
    """
    client, *own = inspect.signature(command, eval_str=True).parameters.values()
    assert client.name == "client", f"{command.__name__}: its first parameter is the client"

    @wraps(command)
    def run(ctx: typer.Context, *, as_json: bool, **arguments: Any) -> None:
        with connect(ctx) as connected:
            result = command(connected, **changed(arguments, options))
        show(result, as_json=as_json)

    named = [each for each in own if each.kind is not each.VAR_KEYWORD]
    by_name = [keyword_only(each.name, each.annotation, each.default) for each in named]
    return with_parameters(run, [*by_name, *options])


def changed(arguments: Mapping[str, Any], options: Sequence[inspect.Parameter]) -> dict[str, Any]:
    """The arguments without the options that nobody gave."""
    usual: dict[str, tuple[Any, ...]] = {option.name: (option.default, None, []) for option in options}
    return {name: value for name, value in arguments.items() if value not in usual.get(name, ())}


def keyword_only(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def with_parameters(run: Callable[..., None], own: list[inspect.Parameter]) -> Callable[..., None]:
    """A command as typer sees it: with a context, these parameters, and ``--json``."""
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    signature = inspect.Signature([context, *own, keyword_only("as_json", Json, False)])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return run


def show(result: CommandResult, *, as_json: bool) -> None:
    """Print it. Raises its failure, if it has one."""
    if as_json:
        output.document(result.document)
    elif (printed := result.view()) is not None:
        output.stdout().print(printed)
    if result.failure is not None:
        raise result.failure
