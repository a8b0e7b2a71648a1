"""What actions answer, by its form: rows as a table, a prompt as its text, other things as lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from rich.cells import cell_len
from rich.text import Text

from jiyi.cli import output

#: Cells by which what is inside of a field stands further right than its name.
INDENT = 2
#: Cells of a column beyond which its text is wrapped; an id is not.
WRAPPED = 40
#: Cells that a wrapped column has at least.
LEAST = 24
#: Characters of a text before it is cut.
MAX_CHARS = 300


def view(result: Any, words: Sequence[str] = ()) -> None:
    """Print a result. ``words``: the command line that it answers, for the one that shows the next page."""
    fields = dict(result) if isinstance(result, BaseModel) else result
    if isinstance(fields, list):
        _rows("", fields)
    elif not isinstance(fields, Mapping):
        output.notice("nothing") if fields is None else output.line(output.words_of(fields))
    elif {"text", "tokens"} <= fields.keys():
        _prompt(fields)
    else:
        _one(fields, words)


def _prompt(fields: Mapping[str, Any]) -> None:
    """A prompt alone, to be piped on; what there is to know about it on stderr."""
    output.stdout().print(Text(output.block(fields["text"])), soft_wrap=True)
    for name, value in fields.items():
        if name != "text" and value not in (None, "", [], {}) and not _has_things(value):
            output.notice(f"{name}: {output.words_of(value)}")


def _one(fields: Mapping[str, Any], words: Sequence[str]) -> None:
    fields = {name: value for name, value in fields.items() if value is not None}
    rest, following = dict(fields), None
    if "rows" in rest:
        _rows("", rest.pop("rows"))
        following = rest.pop("next", None)
    lists = {
        name: value for name, value in rest.items() if isinstance(value, list | tuple) and _has_things(value)
    }
    rest = {name: value for name, value in rest.items() if name not in lists}
    (name, single), *_ = [*fields.items(), ("", None)]
    if len(fields) == len(rest) == 1 and not isinstance(single, Mapping | BaseModel):
        output.line(name if single is True else output.words_of(single))
    elif lines := list(_lines(rest)):
        output.stdout().print(Text("\n".join(lines)), soft_wrap=True)
    for name, things in lists.items():
        output.stdout().print()
        _rows(name.replace("_", " "), things)
    if isinstance(following, str):
        output.notice(f"more: {_next_page(words, following)}")


def _next_page(words: Sequence[str], cursor: str) -> str:
    """The command for the page after."""
    pairs = zip(("", *words), words, strict=False)
    remaining = (word for before, word in pairs if "--cursor" not in (before, word.partition("=")[0]))
    return shlex.join(["jiyi", *remaining, "--cursor", cursor])


def _rows(title: str, rows: Sequence[Any]) -> None:
    if not rows:
        output.notice("nothing here")
        return
    if not isinstance(rows[0], BaseModel | Mapping | None):
        for each in rows:
            output.line(output.words_of(each))
        return
    cells = [dict(_cells(each)) for each in rows]
    columns = list(dict.fromkeys(name for row in cells for name in row))
    visible = _that_fit(columns, cells)
    wrapped = [name.replace("_", " ") for name in visible if _width(name, cells) > WRAPPED]
    table = output.table(title, *(name.replace("_", " ") for name in visible), grow=wrapped)
    for row in cells:
        output.row(table, *(_text(row[name]) if name in row else None for name in visible))
    output.show(table)
    if hidden := len(columns) - len(visible):
        output.notice(f"{hidden} more columns in a wider terminal, and everything with --json")


def _cells(row: Any) -> Iterator[tuple[str, Any]]:
    """Columns and values, without the empty ones; a model inside of a row has a column for each field."""
    for name, value in dict(row or {}).items():
        if isinstance(value, BaseModel):
            yield from ((f"{name} {inner}", each) for inner, each in _cells(value))
        elif value not in (None, "", [], {}, ()) and not _has_things(value):
            yield name, value


def _text(value: Any) -> str:
    text = output.plain(output.words_of(value))
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"


def _width(name: str, cells: Sequence[Mapping[str, Any]]) -> int:
    return max(cell_len(name), *(cell_len(_text(row[name])) for row in cells if name in row))


def _that_fit(columns: Sequence[str], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns for which there is room: the first, the longest text, those that differ, then others."""
    widths = {name: _width(name, cells) for name in columns}
    texts = [name for name in columns if any(isinstance(row.get(name), str) for row in cells)]
    longest = max(texts, key=widths.__getitem__, default="")
    several = {name for name in columns if len({_text(row.get(name)) for row in cells}) > 1}
    same = {name for name in columns if name not in several and (len(cells) > 1 or name == "group_id")}
    room, visible = output.stdout().width, set[str]()
    for name in sorted(columns, key=lambda name: (name != columns[0], name != longest, name in same)):
        room -= (LEAST if widths[name] > WRAPPED else widths[name]) + output.GAP
        if room < 0 and len(visible) > 1:
            break
        visible.add(name)
    return [name for name in columns if name in visible]


def _has_things(value: Any) -> bool:
    """Whether it holds what has fields of its own, or lists."""
    if isinstance(value, BaseModel):
        return True
    inside = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    )
    return any(isinstance(each, BaseModel | Mapping | list | tuple) for each in inside)


def _lines(content: Any, indent: int = 0) -> Iterator[str]:
    """Fields with their values, what is inside of them below and further right; what is empty is left out."""
    margin, inside = " " * indent, indent + INDENT
    fields = dict(content) if isinstance(content, BaseModel) else content
    pairs = fields.items() if isinstance(fields, Mapping) else (("-", each) for each in fields)
    for name, value in pairs:
        label = name if name == "-" else f"{name}:"
        if isinstance(value, BaseModel | Mapping) or _has_things(value):
            lines = list(_lines(value, inside))
            if name == "-" and lines:
                yield f"{margin}- {lines.pop(0).lstrip()}"
            elif lines:
                yield f"{margin}{label}"
            yield from lines
        elif value not in (None, "", [], {}, ()):
            head, *rest = output.block(output.words_of(value)).splitlines() or [""]
            yield f"{margin}{label} {head}"
            yield from (f"{' ' * inside}{more}" for more in rest)
