"""One memory: what it says, what it rests on, what stands around it, how it came."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import render_template, request, url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.memory import Memory, MemoryBrief
from jiyi.protocol.reflection import Reasons
from models.db.bounded_reads import attempt, from_database
from models.erasure.actions import preview, request_erasure
from models.memory import archive, events, reads
from models.reflection.actions import why_thought
from web.accounts.identity import need
from web.admin import frame
from web.admin.acting import form, perform
from web.admin.memory import chosen_ids, memory_pages
from web.admin.pages import Context, reads_database
from web.admin.retrieval import FILTERS

#: Levels of evidence and memories of them that are shown: as `jiyi memory why` does, and as many as a page
#: can hold.
DEPTH, MOST_REASONS = 5, 60
#: Memories resting on one, its nearest, and those before and after it in its session, that a page shows.
MAX_RESTING, NEAREST, BESIDE = 50, 8, 3
#: Longest question that may have led here; the settings bound it once more.
MAX_FOCAL = 100_000
#: Entries of a conversation that a page shows.
MAX_UTTERANCES = 200
NONE = lazy_gettext("There is no memory %(id)s in the group “%(group)s”.")
ADDRESS = "/nodes/<name:group>/<uuid:node_id>"


@memory_pages.page(
    ADDRESS,
    "node.html",
    "node",
    NONE,
    focal=lambda _: frame.parameter("focal", MAX_FOCAL),
    why_address=lambda data: _why_address(data["node"]),
    tree=lambda data: tree(data["reasons"]),
    graph=lambda data: EvidenceGraph(data["reasons"], data["resting"] or []),
)
def one(group: str, node_id: UUID) -> Context | None:
    """The memory with everything around it; slow parts are requested separately and may fail separately."""
    context = _memory_context(group, node_id)
    if context is None:
        return None
    of = (group, context["node"]["agent_id"], node_id)
    resting = attempt(lambda: from_database(lambda c: reads.resting_on(c, *of, MAX_RESTING)))
    return {**context, "resting": resting.value, "resting_unknown": resting.reason or None}


@memory_pages.page(f"{ADDRESS}/nearest", "_nearest.html", "nearest")
def nearest(group: str, node_id: UUID) -> Context:
    """Memories with the nearest vectors: thousands are compared, so the page requests them separately."""
    reading = attempt(lambda: from_database(lambda c: reads.nearest(c, group, node_id, NEAREST)))
    return {"nearest": reading.value, "nearest_unknown": reading.reason or None}


@reads_database
def _memory_context(connection: Connection, group: str, node_id: UUID) -> Context | None:
    node = reads.node(connection, group, node_id)
    if node is None:
        return None
    utterances = [entry for entry in node.filling if isinstance(entry, list) and len(entry) == 2]
    newer = [node.superseded_by] if node.superseded_by else []
    reasons = why_thought(connection, group, node_id, DEPTH, MOST_REASONS)
    evidence = reasons.nodes[node_id].evidence
    return {
        "node": node.model_dump(exclude={"filling"}),
        "reasons": reasons,
        "evidence": [reasons.nodes[id_] for id_ in evidence if id_ in reasons.nodes],
        "evidence_count": len(evidence),  # with what is not there or not shown
        "utterances": [{"speaker": str(who), "text": str(what)} for who, what in utterances[:MAX_UTTERANCES]],
        "utterance_count": len(utterances),
        "session": reads.in_session(connection, group, node_id, BESIDE),
        "replaced_by": next(iter(reads.nodes_of(connection, group, newer)), None),
        "replaces": reads.nodes_of(connection, group, node.supersedes),
        **events.became(connection, group, node_id)._asdict(),
    }


def _why_address(node: Context) -> str:
    """Where its components for the question that led here are shown."""
    subject = {"group": frame.group(), "node_id": node["node_id"], "agent": node["agent_id"]}
    parameters: dict[str, Any] = dict(request.args.lists())
    question = {
        name: parameters[name] for name in parameters if name.startswith("a.") or name in ("focal", *FILTERS)
    }
    return url_for("playground.one", **question | subject)


form(memory_pages, f"{ADDRESS}/archive", archive.archive, "memories.node")
form(memory_pages, f"{ADDRESS}/restore", archive.restore, "memories.node")
form(memory_pages, f"{ADDRESS}/reinstate", archive.reinstate_memory, "memories.node")
form(memory_pages, f"{ADDRESS}/correct", archive.update_memory, "memories.node")

form(memory_pages, f"{ADDRESS}/delete", request_erasure, "erasure.one", scope="admin")

#: Seconds that looking for what rests on chosen memories may take.
PREVIEW_TIMEOUT = 20.0


CHOSEN, IDS = "/memories/<name:group>", {"ids": "node_id"}


@memory_pages.post(f"{CHOSEN}/chosen")
def chosen(group: str) -> str:
    """What was chosen among the memories, and what goes with it if it is erased. Changes nothing."""
    need("admin")
    node_ids = chosen_ids()
    nodes = from_database(lambda connection: reads.nodes_of(connection, frame.group(), node_ids))
    affected = perform(preview, node_ids=node_ids, timeout=PREVIEW_TIMEOUT)
    return render_template("chosen.html", group=group, nodes=nodes, affected=affected)


form(memory_pages, f"{CHOSEN}/archive", archive.archive, "memories.index", name="archive_chosen", names=IDS)
form(memory_pages, f"{CHOSEN}/rate", archive.rate, "memories.index", name="rate_chosen", names=IDS)
form(memory_pages, f"{CHOSEN}/delete", request_erasure, "erasure.one", name="delete_chosen", scope="admin")


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
    """The memory with its evidence beneath; what was shown before has nothing beneath it again."""
    visited: set[UUID] = set()

    def branch(node_id: UUID) -> dict[str, object]:
        node = reasons.nodes.get(node_id)
        if node is None or node_id in visited:
            return {"node_id": node_id, "node": node, "again": node is not None, "beneath": []}
        visited.add(node_id)
        beneath = [branch(id_) for id_ in node.evidence]
        return {"node_id": node_id, "node": node, "again": False, "beneath": beneath}

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


class EvidenceGraph:
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
        visible = nodes if len(nodes) <= MOST_IN_COLUMN + 1 else nodes[:MOST_IN_COLUMN]
        rows = len(visible) + (len(nodes) > len(visible))
        x = MARGIN + place * (WIDTH + COLUMN_GAP)
        top = (self.height - rows * (HEIGHT + ROW_GAP) + ROW_GAP) // 2
        for row, node in enumerate(visible):
            y = top + row * (HEIGHT + ROW_GAP)
            yield Box(x, y, lines(node.description), node, here=node.node_id == self.here)
        if len(nodes) > len(visible):
            yield Box(x, top + len(visible) * (HEIGHT + ROW_GAP), [], None, len(nodes) - len(visible))

    def _lines(self, reasons: Reasons, resting: Sequence[MemoryBrief]) -> Iterator[dict[str, object]]:
        """A curve from each memory to each that it rests on, as SVG has it."""
        at = {box.node.node_id: box for box in self.boxes if box.node is not None}
        pairs = [(node.node_id, self.here) for node in resting]
        pairs += [(node.node_id, id_) for node in reasons.nodes.values() for id_ in node.evidence]
        for above, below in dict.fromkeys(pairs):
            if above in at and below in at and at[above].x < at[below].x:
                yield {"above": above, "below": below, "path": _curve(at[above], at[below])}


def _levels(reasons: Reasons) -> Iterator[list[Memory]]:
    """The evidence level by level, each memory where it is met first."""
    nodes = reasons.nodes
    met, level = {reasons.node_id}, [reasons.node_id]
    for _level in range(LEVELS):
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
    broken: list[str] = []
    rest = " ".join(text.split())
    for line in range(LINES):
        fits = _fitting(rest)
        if fits >= len(rest):
            return [*broken, rest] if rest else broken
        if line == LINES - 1:
            return [*broken, rest[: max(1, fits - 1)].rstrip() + "…"]
        cut = rest.rfind(" ", fits // 2, fits + 1)
        cut = fits if cut < 0 else cut
        broken.append(rest[:cut])
        rest = rest[cut:].lstrip()
    return broken


def _fitting(text: str) -> int:
    places = 0
    for count, character in enumerate(text):
        places += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if places > LINE_CHARS:
            return count
    return len(text)
