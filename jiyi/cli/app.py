"""All commands. ``jiyi SUBJECT VERB`` is the action ``subject.verb``; what does more is written by hand.

No command is loaded before it is run: ``tools.commands`` writes all help to ``commands.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

import jiyi
from jiyi import protocol
from jiyi.cli import output
from jiyi.cli.shell import Invocation, Root, loaded

TALKING, LOOKING, RUNNING = "Store and retrieve", "Inspect", "Operate"
SUBJECTS = "Everything else: jiyi SUBJECT VERB"
#: What is written by hand: where it is, and below which heading it is listed.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "observe": ("observe:observe", TALKING),
    "retrieve": ("retrieval:retrieve", TALKING),
    "end-session": ("observe:end_session", TALKING),
    "reflect": ("reflection:reflect", TALKING),
    "ingest": ("tiers:ingest", TALKING),
    "recall": ("tiers:recall", TALKING),
    "doctor": ("service:doctor", LOOKING),
    "up": ("service:up", RUNNING),
    "mcp": ("service:mcp", RUNNING),
    "proxy": ("service:proxy", RUNNING),
    "connect": ("connect:connect", RUNNING),
    "reembed": ("operations:reembed", RUNNING),
    "backup": ("service:backup", RUNNING),
    "restore": ("service:restore", RUNNING),
    "import": ("import_sources:import_app", RUNNING),
    "export": ("transfer:export_app", RUNNING),
}
#: Actions whose command does more: it makes a secret, asks for a password or a yes, reads a file, or waits.
ACTIONS: Mapping[str, str] = {
    "stores.apply": "stores:apply",
    "stores.schema": "stores:schema",
    "keys.create": "accounts:create_key",
    "keys.rotate": "accounts:rotate_key",
    "people.add": "accounts:add_person",
    "people.set_password": "accounts:set_password",
    "erasure.request": "erasure:erase",
    "jobs.run": "operations:run_job",
}
#: Name of a command, or ``subject.verb`` → its help.
HELP: Mapping[str, str] = json.loads(files(__package__).joinpath("commands.json").read_bytes())


class Later(TyperCommand):
    """A command by its name and help; the rest is loaded when it is run."""

    def __init__(self, name: str, doc: str, load: Callable[[], Any], panel: str | None = None) -> None:
        super().__init__(name, help=doc, rich_help_panel=panel)
        self.load = load

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        return self.load().make_context(*arguments, **options)


class SubjectCommands(TyperGroup):
    """The actions of a subject."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name.replace("-", "_"))


class Commands(Root):
    """The root: what is written by hand, and all subjects. Aliases of actions are commands too, unlisted."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (place, panel) in COMMANDS.items():
            doc = HELP.get(name, "")
            self.commands[name] = Later(name, doc, partial(by_hand, name, place, doc), panel)
        subjects: dict[str, dict[str, Any]] = {}
        for action in HELP:
            subject, _, verb = action.partition(".")
            if verb:
                subjects.setdefault(subject, {})[verb] = Later(verb, HELP[action], partial(of_action, action))
        for subject, verbs in subjects.items():
            self.commands[subject] = SubjectCommands(
                name=subject,
                help=", ".join(verbs),
                commands=verbs,
                rich_help_panel=SUBJECTS,
                no_args_is_help=True,
            )

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name) or super().get_command(ctx, cmd_name.replace("-", "_"))
        if command is not None:
            return command
        aliases: Mapping[str, str] = json.loads(files(protocol).joinpath("aliases.json").read_bytes())
        return of_action(aliases[cmd_name]) if cmd_name in aliases else None


def by_hand(name: str, place: str, doc: str) -> Any:
    """The command that is a function, or several commands, of a module of this package."""
    command = loaded(place)
    if isinstance(command, typer.Typer):
        options = {"pretty_exceptions_short": False, "suggest_commands": True, "rich_markup_mode": "rich"}
        return get_group_from_info(TyperInfo(command, name=name), **options)  # type: ignore[arg-type]
    info = CommandInfo(name, callback=command, help=doc)
    return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode="rich")


def of_action(action: str) -> Any:
    """The command of an action."""
    verb = action.partition(".")[2]
    if action in ACTIONS:
        return by_hand(verb, ACTIONS[action], HELP[action])
    from jiyi.cli.subjects import callback_of  # late: it loads the models of all requests

    info = CommandInfo(verb, callback=callback_of(action), help=HELP[action])
    return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode="rich")


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
        str | None,
        typer.Option(
            "--group", "-g", help="Group (tenant) to speak for.", show_default="JIYI_GROUP, or default"
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_version, is_eager=True, show_default=False
        ),
    ] = False,
) -> None:
    """Jiyi 记忆: memory for AI agents."""
    ctx.obj = Invocation(group=group, words=ctx.meta.get(Root.WORDS, ()))
