"""What a memory rests on, as a tree to read and as a drawing. Both come from ``models.reflection.reads.why``."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from jiyi.protocol.memory_fields import MemoryBrief
from jiyi.protocol.reflection import Reason, Reasons

#: Boxes of the drawing, in its own units, and the space between columns and rows.
WIDTH, HEIGHT, COLUMN_GAP, ROW_GAP = 208, 50, 56, 12
MARGIN = 8
#: Boxes in a column; more are counted in a last one.
MOST_IN_COLUMN = 9
#: Levels of evidence that are drawn; the tree shows all.
LEVELS = 3
#: Latin characters in a line of a box; Chinese ones take two places.
LINE_CHARS, LINES = 26, 2


def tree(reasons: Reasons) -> dict[str, object]:
    """The memory with its evidence beneath; one that was shown before has nothing beneath it the second time."""
    shown: set[UUID] = set()

    def branch(node_id: UUID) -> dict[str, object]:
        node = reasons.nodes.get(node_id)
        if node is None or node_id in shown:
            return {"node_id": node_id, "node": node, "again": node is not None, "beneath": []}
        shown.add(node_id)
        return {"node_id": node_id, "node": node, "again": False, "beneath": [branch(id_) for id_ in node.evidence]}

    return branch(reasons.node_id)


@dataclass(frozen=True, slots=True)
class Box:
    """A memory in the drawing, or (without a node) how many more there are."""

    x: int
    y: int
    lines: list[str]
    node: MemoryBrief | None
    more: int = 0
    here: bool = False


class Graph:
    """From left to right: what rests on the memory, the memory, its evidence level by level."""

    def __init__(self, reasons: Reasons, resting: Sequence[MemoryBrief]) -> None:
        self.here = reasons.node_id
        columns: list[Sequence[MemoryBrief]] = [resting, [reasons.nodes[self.here]], *_levels(reasons)]
        self.columns = [column for column in columns if column]
        tallest = max(min(len(column), MOST_IN_COLUMN + 1) for column in self.columns)
        self.width = 2 * MARGIN + len(self.columns) * (WIDTH + COLUMN_GAP) - COLUMN_GAP
        self.height = 2 * MARGIN + tallest * (HEIGHT + ROW_GAP) - ROW_GAP
        self.boxes = [box for place, column in enumerate(self.columns) for box in self._column(place, column)]
        self.lines = list(self._lines(reasons, resting))

    def __bool__(self) -> bool:
        return len(self.columns) > 1

    def _column(self, place: int, nodes: Sequence[MemoryBrief]) -> Iterator[Box]:
        shown = nodes if len(nodes) <= MOST_IN_COLUMN + 1 else nodes[:MOST_IN_COLUMN]
        rows = len(shown) + (len(nodes) > len(shown))
        x = MARGIN + place * (WIDTH + COLUMN_GAP)
        top = (self.height - rows * (HEIGHT + ROW_GAP) + ROW_GAP) // 2
        for row, node in enumerate(shown):
            yield Box(x, top + row * (HEIGHT + ROW_GAP), lines(node.description), node, here=node.node_id == self.here)
        if len(nodes) > len(shown):
            yield Box(x, top + len(shown) * (HEIGHT + ROW_GAP), [], None, len(nodes) - len(shown))

    def _lines(self, reasons: Reasons, resting: Sequence[MemoryBrief]) -> Iterator[dict[str, object]]:
        """A curve from each memory to each that it rests on, as SVG has it."""
        at = {box.node.node_id: box for box in self.boxes if box.node is not None}
        pairs = [(node.node_id, self.here) for node in resting]
        pairs += [(node.node_id, id_) for node in reasons.nodes.values() for id_ in node.evidence]
        for above, below in dict.fromkeys(pairs):
            if above in at and below in at and at[above].x < at[below].x:
                yield {"above": above, "below": below, "path": _curve(at[above], at[below])}


def _levels(reasons: Reasons) -> Iterator[list[Reason]]:
    """The evidence level by level, each memory where it is met first."""
    nodes = reasons.nodes
    met, level = {reasons.node_id}, [reasons.node_id]
    for _ in range(LEVELS):
        beneath = dict.fromkeys(id_ for above in level for id_ in nodes[above].evidence)
        level = [id_ for id_ in beneath if id_ not in met and id_ in nodes]
        met.update(level)
        if not level:
            return
        yield [nodes[id_] for id_ in level]


def _curve(above: Box, below: Box) -> str:
    x, y = above.x + WIDTH, above.y + HEIGHT // 2
    to_x, to_y = below.x, below.y + HEIGHT // 2
    bend = min(COLUMN_GAP, (to_x - x)) * 3 // 4
    return f"M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"


def lines(text: str) -> list[str]:
    """The beginning of a text in the lines of a box; broken between words where that leaves no large gap."""
    found: list[str] = []
    rest = " ".join(text.split())
    for line in range(LINES):
        fits = _fitting(rest)
        if fits >= len(rest):
            return [*found, rest] if rest else found
        if line == LINES - 1:
            return [*found, rest[: max(1, fits - 1)].rstrip() + "…"]
        cut = rest.rfind(" ", fits // 2, fits + 1)
        cut = fits if cut < 0 else cut
        found.append(rest[:cut])
        rest = rest[cut:].lstrip()
    return found


def _fitting(text: str) -> int:
    places = 0
    for count, character in enumerate(text):
        places += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if places > LINE_CHARS:
            return count
    return len(text)
