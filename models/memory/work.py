"""The work that a new memory owes, by kind; the tasks of these names do it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.memory import counts_for_keywords
from jiyi.protocol.events import Observation

#: Owed by a node without a vector.
EMBED = "embed"
#: Count its keywords, count its importance, set the depth of a thought whose evidence came later.
STRENGTHEN, ACCUMULATE, DEPTH = "strengthen", "accumulate", "depth"
#: Owed before STRENGTHEN and ACCUMULATE by a node whose event lacks what the LLM is to be asked for.
APPRAISE = "appraise"
#: Owed by an agent that has become too large for an index in memory.
ENLARGE = "enlarge"
#: Owed by nodes from before there were tokens (migration 0002).
TOKENIZE = "tokenize"
#: Owed by what was taken from a conversation, and has no overview yet.
SUMMARIZE = "summarize"
SUMMARISED_KINDS = ("preference", "knowledge", "experience")


def owed_by(seen: Observation, complete: Sequence[str], *, waits: bool, lacks: bool) -> tuple[str, ...]:
    """The kinds of work that a new node owes. ``complete``: what it owes when nothing is missing; ``waits``:
    for some of its evidence; ``lacks``: the LLM is to be asked for something first.
    """
    owed = [EMBED] if seen.vector is None else []
    if waits:
        owed.append(DEPTH)
    if seen.kind in SUMMARISED_KINDS and seen.overview is None:
        owed.append(SUMMARIZE)
    if lacks:
        return (*owed, APPRAISE)
    return (*owed, *(kind for kind in complete if not (seen.historic and kind == ACCUMULATE)))


def owed_when_complete(
    node_type: str, keywords: Sequence[str], predicate: str | None, object_: str | None
) -> list[str]:
    """The work that needs a memory's importance, keywords and triple: what counts them."""
    owed = [STRENGTHEN] if keywords and counts_for_keywords(node_type, predicate, object_) else []
    return [*owed, ACCUMULATE] if node_type == "event" else owed
