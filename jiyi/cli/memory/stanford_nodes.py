"""What of the original's saved nodes Jiyi can keep, and what it leaves out, said value by value.

The original checks nothing that its model answers: an empty keyword (the last part of a path that ends in ``:``), an importance of 0 or
15, a thought of no words. None of these is a reason to refuse a memory; but whoever brings it in is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jiyi.protocol import limits
from jiyi.protocol.events import MAX_KEYWORD_CHARS, MAX_PART_CHARS
from jiyi.protocol.wire.json_values import JsonObject

#: The scale of importance; what is outside counts as unknown, which is 0.
LEAST_POIGNANCY, MOST_POIGNANCY = 1, 10
MAX_SHOWN_CHARS = 40


def what_fits(nodes: Sequence[Mapping[str, Any]]) -> tuple[list[JsonObject], list[str]]:
    """The nodes as far as they can be stored, and a sentence for each value, or node, that is left out.

    What is missing or of another type than the original writes stays as it is, to be refused by name.
    """
    left_out: list[str] = []
    empty = {node["node_id"] for node in nodes if _is_blank(node.get("description"))}
    left_out += [f"{node_id}: the whole node, its description is empty" for node_id in sorted(empty, key=_number)]
    kept = [_fitting(node, empty, left_out) for node in nodes if node["node_id"] not in empty]
    return kept, left_out


def _fitting(node: Mapping[str, Any], empty: set[str], left_out: list[str]) -> JsonObject:
    made = dict(node)

    def note(what: str) -> None:
        left_out.append(f"{node['node_id']}: {what}")

    if isinstance(keywords := node.get("keywords"), list):
        made["keywords"] = _keywords(keywords, note)
    for name in ("subject", "predicate", "object"):
        if isinstance(text := node.get(name), str) and len(text) > MAX_PART_CHARS:
            made[name] = None
            note(f"the {name}, {len(text):,} characters are more than {MAX_PART_CHARS}")
    poignancy = node.get("poignancy")
    if isinstance(poignancy, int | float) and not LEAST_POIGNANCY <= poignancy <= MOST_POIGNANCY:
        made["poignancy"] = None
        note(f"the poignancy {poignancy:g}, which is not between {LEAST_POIGNANCY} and {MOST_POIGNANCY}: it counts as 0")
    if isinstance(filling := node.get("filling"), list) and empty.intersection(one for one in filling if isinstance(one, str)):
        made["filling"] = [one for one in filling if one not in empty]
    return made


def _keywords(keywords: list[Any], note: Callable[[str], None]) -> list[Any]:
    """Those that can be found: not empty, not too long, not too many."""
    short = [one for one in keywords if one != ""]
    if len(short) < len(keywords):
        note("an empty keyword")
    fitting = [one for one in short if not isinstance(one, str) or len(one) <= MAX_KEYWORD_CHARS]
    for one in short:
        if one not in fitting:
            note(f"the keyword {one[:MAX_SHOWN_CHARS]!r}…, {len(one):,} characters are more than {MAX_KEYWORD_CHARS}")
    most = limits.MAX_KEYWORDS
    if len(fitting) > most:
        note(f"{len(fitting) - most} of {len(fitting)} keywords, more than {most} are too many")
    return fitting[:most]


def _is_blank(text: Any) -> bool:
    return isinstance(text, str) and not text.strip()


def _number(node_id: str) -> int:
    return int(node_id.removeprefix("node_"))
