"""The work that is enqueued for a new memory, by kind; the tasks of these names do it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.memory import counts_for_keywords
from jiyi.protocol.events import Observation

#: Enqueued for a node without a vector.
EMBED = "embed"
#: Count its keywords, count its importance, set the depth of a thought whose evidence came later.
STRENGTHEN, ACCUMULATE, DEPTH = "strengthen", "accumulate", "depth"
#: Enqueued before STRENGTHEN and ACCUMULATE for a node whose event lacks values that the LLM has to give.
APPRAISE = "appraise"
#: Enqueued for an agent that has become too large for an index in memory.
ENLARGE = "enlarge"
#: Enqueued for nodes from before there were tokens (migration 0002).
TOKENIZE = "tokenize"
#: Enqueued for a memory that was taken from a conversation, and has no overview yet.
SUMMARIZE = "summarize"
SUMMARISED_KINDS = ("preference", "knowledge", "experience")


def work_for(
    observation: Observation, complete: Sequence[str], *, waits: bool, lacks: bool
) -> tuple[str, ...]:
    """The kinds of work to enqueue for a new node. ``complete``: those when nothing is missing; ``waits``:
    for some of its evidence; ``lacks``: the LLM is to be asked for something first.
    """
    kinds = [EMBED] if observation.vector is None else []
    if waits:
        kinds.append(DEPTH)
    if observation.kind in SUMMARISED_KINDS and observation.overview is None:
        kinds.append(SUMMARIZE)
    if lacks:
        return (*kinds, APPRAISE)
    return (*kinds, *(kind for kind in complete if not (observation.historic and kind == ACCUMULATE)))


def work_when_complete(
    node_type: str, keywords: Sequence[str], predicate: str | None, object_: str | None
) -> list[str]:
    """The work that needs a memory's importance, keywords and triple: what counts them."""
    kinds = [STRENGTHEN] if keywords and counts_for_keywords(node_type, predicate, object_) else []
    return [*kinds, ACCUMULATE] if node_type == "event" else kinds
