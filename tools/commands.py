"""The help of the command line: ``python -m tools.commands`` writes it, ``--check`` says whether it is up to
date.

``jiyi/cli/commands.json`` has the words of every command and action, so that ``jiyi --help`` loads none of
them. An action's are those that REST has, of its function in ``models``, which the client's package does not
have.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

import models.actions  # noqa: F401 – registers every action
from jiyi.cli.app import ACTIONS, COMMANDS
from jiyi.cli.shell import loaded
from jiyi.protocol.actions import TABLE
from models.db.actions import REGISTERED

PLACE = Path(__file__).resolve().parents[1] / "jiyi" / "cli" / "commands.json"


def words() -> dict[str, str]:
    """Name of a command written by hand, or of an action, and its help: a paragraph a line."""
    commands = {name: _of_place(place) for name, (place, _) in COMMANDS.items()}
    actions = {name: _of_place(ACTIONS[name]) if name in ACTIONS else REGISTERED[name].doc for name in TABLE}
    return {name: _paragraphs(doc) for name, doc in (commands | actions).items()}


def _of_place(place: str) -> str:
    command = loaded(place)
    return str(command.info.help) if isinstance(command, typer.Typer) else command.__doc__ or ""


def _paragraphs(doc: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(doc).split("\n\n"))


def main(arguments: Sequence[str]) -> int:
    """Write the file; with ``--check`` only say whether it is not up to date, and return 1 then."""
    text = json.dumps(words(), ensure_ascii=False, indent=1) + "\n"
    if "--check" not in arguments:
        PLACE.write_text(text, encoding="utf-8")
    elif text != PLACE.read_text(encoding="utf-8"):
        sys.stderr.write(f"{PLACE.name} is not up to date: run python -m tools.commands\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
