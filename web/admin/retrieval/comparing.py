"""Ranked lists as a page shows them: bars, every component in figures, and what changed between two.

Each list has a scale of its own: scores of different settings cannot be compared, ranks can.
"""

from __future__ import annotations

from jiyi.protocol.retrieval import Answer, RetrievedNode
from models.db.bounded_reads import Reading
from web.admin.pages import Context

#: The parts of a score, in the order of the bar.
PARTS = ("recency", "relevance", "importance")
#: Of relevance, where they played a part (``jiyi.protocol.retrieval.RelevanceParts``).
RELEVANCE_PARTS = ("dense", "lexical", "second_hop", "neighbours", "named")
#: What a row shows of a memory besides.
SHOWN = {"node_id", "agent_id", "type", "node_count", "created_at", "last_accessed", "poignancy", "description", "score", *PARTS}
#: A bar never fills its line quite, so that its end is seen.
FULL = 98.0


def ranking(found: Reading[Answer], side: str, settings: Context) -> Context:
    """One side: its rows, or in one sentence why there are none."""
    if found.value is None:
        return {"side": side, "settings": settings, "unknown": found.reason, "rows": [], "debug": None, "message": "", "weights": {}}
    group = found.value.groups[0]
    first = next(iter(group.retrieved_nodes), None)
    return {
        "side": side,
        "settings": settings,
        "unknown": None,
        "debug": group.debug.model_dump(),
        "status": group.status,
        "message": group.message,
        # Setting × gain, which is the same for all memories of an answer.
        "weights": {} if first is None else {part: getattr(first, part).weight for part in PARTS},
        "rows": [_row(rank, node) for rank, node in enumerate(group.retrieved_nodes, 1)],
    }


def compared(lists: dict[str, Context]) -> None:
    """Give each row its bar, and its rank on the other side."""
    for found in lists.values():
        highest = max((row["score"] for row in found["rows"]), default=0.0)
        for row in found["rows"]:
            row["bar"] = _bar(row, highest)
    if len(lists) < 2:
        return
    ranks = {side: {row["node_id"]: row["rank"] for row in found["rows"]} for side, found in lists.items()}
    for side, found in lists.items():
        other = next(ranks[name] for name in lists if name != side)
        for row in found["rows"]:
            row["elsewhere"] = other.get(row["node_id"])
            row["moved"] = None if row["elsewhere"] is None else row["elsewhere"] - row["rank"]


def _row(rank: int, node: RetrievedNode) -> Context:
    parts = node.relevance_parts.model_dump()
    return {**node.model_dump(include=SHOWN), "rank": rank, "relevance_parts": {name: parts[name] for name in RELEVANCE_PARTS}}


def _bar(row: Context, highest: float) -> list[Context]:
    """The three parts from left to right, in hundredths of the line."""
    segments, x = [], 0.0
    for part in PARTS:
        width = max(0.0, row[part]["contribution"]) / highest * FULL if highest > 0 else 0.0
        segments.append({"part": part, "x": round(x, 2), "width": round(width, 2)})
        x += width
    return segments
