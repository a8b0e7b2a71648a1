"""What the Python client has of the protocol: ``python -m tools.client`` writes it, ``--check`` says whether
it is up to date.

``jiyi/client/actions.py`` has a method for each action of the table; ``jiyi/client/arguments.py`` the options
of the verbs that are written by hand. Both follow from :mod:`jiyi.protocol`: edit that.
"""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import AwareDatetime, BaseModel

from jiyi import settings
from jiyi.client import by_hand
from jiyi.protocol import base, conversations, events, knowledge, origins, recall, retrieval, tier_questions
from jiyi.protocol.actions import TABLE, Declaration

FOLDER = Path(__file__).resolve().parents[1] / "jiyi" / "client"
EDIT = "\n\n``python -m tools.client`` writes this from :mod:`jiyi.protocol`: edit that.\n"
ENVELOPE = {"agent_id", "payload", "type", "version"}
#: Name → the models whose fields they are, and those of their fields that the verbs have as arguments of
#: their own.
OPTIONS: Mapping[str, tuple[Sequence[type[BaseModel]], set[str]]] = {
    "EventArguments": ([events.TurnRecorded], ENVELOPE | {"session_id"}),
    "Envelope": ([events.MemoryObserved], ENVELOPE),
    "ObservationArguments": ([events.MemoryObserved, events.Observation], ENVELOPE | {"description"}),
    "AgentArguments": ([events.Configuration], set()),
    "EndingArguments": ([events.SessionEnded, events.Ending], ENVELOPE | {"session_id"}),
    "RetrievalArguments": ([retrieval.Question], {"agent_id", "queries"}),
    "RecallArguments": ([recall.RecallRequest], {"agent_id", "query"}),
    "ListArguments": ([recall.ListMemories], {"agent_id", "cursor", "limit"}),
    "UpdateArguments": ([recall.UpdateMemory], {"id", "description"}),
    "MemoryArguments": ([tier_questions.MemoryQuestion], {"query"}),
    "IngestArguments": ([knowledge.IngestBody], {"content"}),
}
#: Where types that have a name are looked for.
NAMED = (base, origins, conversations, recall, tier_questions, settings)


def main(arguments: Sequence[str]) -> int:
    """Write both modules; with ``--check`` only say which are not up to date, and return 1 if any is."""
    stale = []
    for name, text in (("arguments", options_module()), ("actions", actions_module())):
        file = FOLDER / f"{name}.py"
        made = _formatted(text)
        if "--check" not in arguments:
            file.write_text(made, encoding="utf-8")
        elif file.read_text("utf-8") != made:
            stale.append(file.name)
    if stale:
        print(
            f"{' and '.join(stale)} of jiyi/client: not up to date with jiyi/protocol: run `python -m"
            " tools.client`"
        )
    return bool(stale)


def actions_module() -> str:
    """A class for each subject, with a method for each of its actions that is not written by hand."""
    subjects = {
        of: list(rows) for of, rows in groupby(sorted(TABLE), key=lambda name: name.partition(".")[0])
    }
    body = []
    for subject, names in subjects.items():
        base = f"{_title(subject)}Base"
        hand = getattr(by_hand, base, None)
        lines = [f"class {_class_name(subject)}({'by_hand.' + base if hand else 'Namespace'}[W]):"]
        lines += [
            _row(TABLE[name], name.partition(".")[2])
            for name in names
            if name.partition(".")[2] not in vars(hand or object)
        ]
        body.append("\n".join(lines))
    body.append(
        "\n".join(
            [
                "class Subjects(Namespace[W]):",
                '    """The actions, by their subjects."""\n',
                "    def __init__(self, calls: Calls) -> None:",
                "        super().__init__(calls)",
                *(
                    f"        self.{subject}: {_class_name(subject)}[W] = {_class_name(subject)}(calls)"
                    for subject in subjects
                ),
            ]
        )
    )
    text = "\n\n\n".join(body)
    head = [
        f'"""Every action of the service as a method of the client: ``client.keys.list()``.{EDIT}"""\n',
        "from __future__ import annotations\n",
        "import builtins",
        "from uuid import UUID\n",
        "from jiyi.client import by_hand",
        "from jiyi.client.calls import Calls, Namespace, W",
        "from jiyi.client.verbs import Answers",
        _imports(text),
    ]
    return "\n".join(head) + "\n\n\n" + text + "\n"


def _row(row: Declaration, name: str) -> str:
    name = f"{name}_" if keyword.iskeyword(name) else name
    return f"    {name} = Answers[{exact(row.result)}].to({exact(row.request)})"


def options_module() -> str:
    """A TypedDict for each of :data:`OPTIONS`; one that has all fields of another is made of it."""
    body, known = [], dict[str, dict[str, str]]()
    for name, (models, apart) in OPTIONS.items():
        fields: dict[str, str] = {}
        for model in models:
            hints = get_type_hints(model, include_extras=True)
            own = {one for one, field in model.model_fields.items() if not field.exclude} - apart
            fields |= {one: accepted(hint) for one, hint in hints.items() if one in own}
        part = max(
            (one for one in known if known[one].items() <= fields.items()),
            key=lambda one: len(known[one]),
            default=None,
        )
        of = " and ".join(f":class:`{model.__module__}.{model.__name__}`" for model in models)
        lines = [f"class {name}({part or 'TypedDict'}, total=False):", f'    """Of {of}."""\n']
        body.append(
            "\n".join(
                lines
                + [
                    f"    {one}: {hint}"
                    for one, hint in fields.items()
                    if one not in known.get(part or "", ())
                ]
            )
        )
        known[name] = fields
    table = [
        f"    {name}: ({''.join(exact(model) + ', ' for model in models)}),"
        for name, (models, _) in OPTIONS.items()
    ]
    about = "#: The models that say what each means, and check it."
    body.append("\n".join([about, "MODELS: Mapping[Any, tuple[type[BaseModel], ...]] = {", *table, "}"]))
    text, used = "\n\n\n".join(body), dict[str, str]()

    def short(found: re.Match[str]) -> str:
        used[found[2]] = found[1]
        return found[2]

    places = {name.rpartition(".")[2]: name for name in _modules()}
    text = re.sub(rf"(?<![.\w])({'|'.join(places)})\.(\w+)", short, text)
    head = [
        f'"""Options of the client\'s verbs, with their types.{EDIT}"""\n',
        "from __future__ import annotations\n",
        "from collections.abc import Mapping, Sequence",
        "from datetime import datetime",
        "from typing import Any, Literal, TypedDict",
        "from uuid import UUID\n",
        "from pydantic import BaseModel\n",
        *(f"from {places[module]} import {name}" for name, module in used.items()),
    ]
    return "\n".join(head) + "\n\n\n" + text + "\n"


def _imports(text: str) -> str:
    names = sorted(
        {module.rpartition(".")[2] for module in _modules() if f"{module.rpartition('.')[2]}." in text}
    )
    return f"from jiyi.protocol import {', '.join(names)}"


def _modules() -> Iterable[str]:
    return [name for name in sys.modules if name.startswith("jiyi.protocol.") and name.count(".") == 2] + [
        "jiyi.settings"
    ]


def exact(hint: Any) -> str:
    """A type as the protocol has it."""
    if get_origin(hint) is Annotated:
        return exact(get_args(hint)[0])
    if isinstance(hint, types.UnionType) or get_origin(hint) is Union:
        return " | ".join(map(exact, get_args(hint)))
    if get_origin(hint) in (list, dict):
        name = "builtins.list" if get_origin(hint) is list else "dict"
        return f"{name}[{', '.join(map(exact, get_args(hint)))}]"
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        generic = hint.__pydantic_generic_metadata__
        if generic["origin"] is not None:
            return f"{exact(generic['origin'])}[{', '.join(map(exact, generic['args']))}]"
        return f"{hint.__module__.rpartition('.')[2]}.{hint.__name__}"
    return "None" if hint is type(None) else str(hint.__name__)


def accepted(hint: Any) -> str:  # noqa: PLR0911 – a case each
    """What a program may give for a field: an id as text, a time in ISO 8601, any sequence, a model's fields
    as a mapping.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return accepted(parts[0])
    if origin is Literal:
        return _named(hint) or f"Literal[{', '.join(map(repr, parts))}]"
    if isinstance(hint, types.UnionType) or origin is Union:
        return " | ".join(dict.fromkeys(one for part in parts for one in accepted(part).split(" | ")))
    if origin is list or (origin is tuple and parts[-1] is ...):
        return f"Sequence[{accepted(parts[0])}]"
    if origin in (dict, tuple):
        return f"{'Mapping' if origin is dict else 'tuple'}[{', '.join(map(accepted, parts))}]"
    if hint is UUID:
        return "UUID | str"
    if hint in (datetime, AwareDatetime):
        return "datetime | str"
    if hint in (bytes, Any):  # a vector: numbers, a numpy array, base64 or packed little-endian float32
        return "Any"
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return f"{exact(hint)} | Mapping[str, Any]"
    return exact(hint)


def _named(hint: Any) -> str | None:
    """``origins.Origin``: where a type of several words is defined."""
    for module in NAMED:
        for name, value in vars(module).items():
            if get_origin(value) is Literal and get_args(value) == get_args(hint):
                return f"{module.__name__.rpartition('.')[2]}.{name}"
    return None


def _title(subject: str) -> str:
    return subject.title().replace("_", "")


def _class_name(subject: str) -> str:
    """Not that of a model or table of the subject."""
    return f"{_title(subject)}Actions"


def _formatted(text: str) -> str:
    for command in (["check", "--fix", "--select", "I,F401"], ["format"]):
        ruff = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "--quiet",
            "--stdin-filename",
            str(FOLDER / "made.py"),
            "-",
        ]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
