"""How things look: documents and tables on stdout, notices and progress on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from pydantic_core import to_jsonable_python
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

#: Narrower than this, tables put some columns below others.
WIDE = 100
#: Cells between two columns.
GAP = 2
UNKNOWN = "–"
#: Cells that a column that wraps has at least, or its text is a tower of syllables.
LEAST = 14
#: Cells of a terminal that holds any table.
UNBOUNDED = 10_000


def stdout() -> Console:
    return Console(markup=False, highlight=False, emoji=False)


def stderr() -> Console:
    return Console(stderr=True, markup=False, highlight=False, emoji=False)


def document(content: Any) -> None:
    """The one JSON document of a run: models, or plain data."""
    sys.stdout.write(
        json.dumps(to_jsonable_python(content), ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
        + "\n"
    )


def line(text: str) -> None:
    """One line of plain output, never wrapped: for ids and other things that are piped on."""
    stdout().print(Text(plain(text)), soft_wrap=True)


def notice(text: str) -> None:
    """One line on stderr, never wrapped."""
    stderr().print(Text(plain(text)), soft_wrap=True)


def plain(text: str) -> str:
    """One line without control characters: a memory must not be able to move the cursor or set colours."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def block(text: str) -> str:
    """Several lines, each without control characters, indents kept."""
    return "\n".join(
        "".join(char if char.isprintable() else " " for char in row) for row in text.splitlines()
    )


def table(title: str, *columns: str, right: Iterable[str] = (), grow: Iterable[str] = ()) -> Table:
    """A table: ``right``-aligned columns, and those that may wrap (``grow``)."""
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    if title:
        drawn.title, drawn.title_justify = Text(plain(title), "bold"), "left"
    aligned, wrapped = set(right), set(grow)
    for name in columns:
        drawn.add_column(
            name, justify="right" if name in aligned else "left", no_wrap=name not in wrapped, overflow="fold"
        )
    return drawn


def room(console_width: int, *columns: int) -> int:
    """Cells that are left for one more column beside those of these widths."""
    return max(console_width - sum(columns) - GAP * len(columns), 2)


def row(grid: Table, *cells: object) -> None:
    grid.add_row(*(cell if isinstance(cell, Text) else cell_text(cell) for cell in cells))


def show(grid: Table) -> None:
    """A table; where it does not fit the terminal, its rows one below the other, a line a cell."""
    console = stdout()
    grown = sum(not column.no_wrap for column in grid.columns)
    narrowest = Measurement.get(console, console.options.update(max_width=UNBOUNDED), grid).minimum
    fits = max(narrowest, _fixed(grid) + grown * (LEAST + 1)) <= console.width
    console.print(grid if fits else _blocks(grid))


def _fixed(grid: Table) -> int:
    """Cells of the columns that never wrap, with what is between them."""
    cells = [[column.header, *column.cells] for column in grid.columns if column.no_wrap]
    return sum(max(cell_len(str(cell)) for cell in column) + 1 for column in cells)


def _blocks(grid: Table) -> Group:
    headers = [str(column.header) for column in grid.columns]
    pieces: list[Table | Text] = [grid.title] if isinstance(grid.title, Text) else []
    for cells in zip(*(column.cells for column in grid.columns), strict=True):
        block = Table.grid(padding=(0, GAP, 0, 0))
        block.add_column(style="dim", no_wrap=True)
        block.add_column(overflow="fold")
        for header, cell in zip(headers, cells, strict=True):
            block.add_row(header, cell)
        pieces += [block, Text()]
    return Group(*pieces[:-1])


def cell_text(value: object) -> Text:
    return Text(UNKNOWN, "dim") if value is None else Text(plain(words_of(value)))


def words_of(value: Any) -> str:
    """A value for people: local times, numbers with commas, the parts of a list or a mapping in a row."""
    words = str(value)
    if isinstance(value, bool):
        words = "yes" if value else "no"
    elif isinstance(value, float):
        words = f"{round(value, 3):g}"
    elif isinstance(value, int):
        words = f"{value:,}"
    elif isinstance(value, datetime):
        words = local_time(value)
    elif isinstance(value, Mapping):
        words = ", ".join(f"{name} {words_of(each)}" for name, each in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        words = ", ".join(map(words_of, value))
    return UNKNOWN if value is None else words


def cut(text: str, width: int, lines: int) -> Text:
    """``text`` wrapped to ``width`` cells, at most ``lines`` of them; ``…`` stands for what was cut."""
    wrapped = Text(plain(text)).wrap(stdout(), max(width, 2))
    rows = list(wrapped[:lines])
    for piece in rows:
        piece.rstrip()
    if len(wrapped) > lines:
        rows[-1].truncate(max(width, 2) - 1)
        rows[-1].rstrip()  # half of a wide character leaves a space
        rows[-1].append("…")
    return Text("\n").join(rows)


def local_date(value: str | datetime | None) -> str:
    return UNKNOWN if value is None else f"{_moment(value):%Y-%m-%d}"


def local_time(value: str | datetime | None) -> str:
    return UNKNOWN if value is None else f"{_moment(value):%Y-%m-%d %H:%M}"


def _moment(value: str | datetime) -> datetime:
    return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone()


def meter(values: Sequence[tuple[str, Any]]) -> Text:
    """``name value · name value``, for footers."""
    return Text(" · ").join(Text(plain(f"{name} {value}")) for name, value in values)


def progress(*, counted: bool = True) -> Progress:
    """Progress on stderr; shown to people only, never written to a log."""
    console = stderr()
    last = (BarColumn(bar_width=24), MofNCompleteColumn()) if counted else (TextColumn("{task.completed:,}"),)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *last,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


#: Each component has a character and a colour of its own: it reads with and without colour.
RECENCY = ("░", "yellow")
RELEVANCE = ("█", "cyan")
IMPORTANCE = ("▒", "magenta")
PARTS = {"recency": RECENCY, "relevance": RELEVANCE, "importance": IMPORTANCE}


def lengths(contributions: Sequence[float], best: float, width: int) -> list[int]:
    """Cells for each part, such that ``best`` fills ``width``; the ends are rounded, not the parts."""
    if best <= 0 or not math.isfinite(best):
        return [0] * len(contributions)
    ends, total = [0], 0.0
    for value in contributions:
        total += max(value, 0.0)
        ends.append(min(width, math.floor(total / best * width + 0.5)))
    return [end - start for start, end in pairwise(ends)]


def stacked(recency: float, relevance: float, importance: float, *, best: float, width: int) -> Text:
    """A score's three contributions one after the other; the best score fills ``width``."""
    parts = zip(PARTS.values(), lengths((recency, relevance, importance), best, width), strict=True)
    return Text.assemble(*((character * cells, colour) for (character, colour), cells in parts))


def legend() -> Text:
    return Text("  ").join(
        Text.assemble((character, colour), f" {name}") for name, (character, colour) in PARTS.items()
    )
