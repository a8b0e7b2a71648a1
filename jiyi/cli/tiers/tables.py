"""Tables of the tiers whose last column, what was said, takes the room that the others leave."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from jiyi.cli import output

#: Lines of an entry before it is cut.
MAX_LINES = 3
#: Cells that what is said has at least, beside the other columns.
LEAST_ROOM = 30


def fill(made: Table, fixed: list[tuple[Any, ...]], texts: list[str]) -> None:
    """Rows whose last cell takes what the others leave."""
    names = [str(column.header) for column in made.columns]
    widths = [max([len(name), *(output.cell_text(row[place]).cell_len for row in fixed)]) for place, name in enumerate(names[:-1])]
    room = max(output.room(output.stdout().width, *widths), LEAST_ROOM)
    for cells, content in zip(fixed, texts, strict=True):
        output.row(made, *cells, output.cut(content, room, MAX_LINES))
