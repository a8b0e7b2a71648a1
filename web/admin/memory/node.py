"""One memory: what it says, what it rests on, what stands around it, how it came."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flask import request, url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.db.bounded_reads import attempt, from_database
from models.erasure.actions import request_erasure
from models.memory import actions, events, reads
from models.reflection.reads import why
from web.admin import frame
from web.admin.acting import door
from web.admin.memory.evidence import Graph, tree
from web.admin.memory.memories import blueprint
from web.admin.pages import Context, page, reads_database
from web.admin.retrieval.playground import FILTERS

#: Levels of evidence and memories of them that are shown: as `jiyi why` does, and as many as a page can hold.
DEPTH, MOST_REASONS = 5, 60
#: Memories resting on one, its nearest, and those before and after it in its session, that a page shows.
MAX_RESTING, NEAREST, BESIDE = 50, 8, 3
#: Longest question that may have led here; the settings bound it once more.
MAX_FOCAL = 100_000
#: Entries of a conversation that a page shows.
MAX_UTTERANCES = 200
NONE = lazy_gettext("There is no memory %(id)s in the group “%(group)s”.")
ADDRESS = "/nodes/<name:group>/<uuid:node_id>"


@page(
    blueprint,
    ADDRESS,
    "node.html",
    name="node",
    missing=NONE,
    focal=lambda _: frame.asked("focal", MAX_FOCAL),
    why_address=lambda data: _why_address(data["node"]),
    tree=lambda data: tree(data["reasons"]),
    graph=lambda data: Graph(data["reasons"], data["resting"] or []),
)
def one(group: str, node_id: UUID) -> Context | None:
    """The memory with everything around it. What takes long is asked apart from the rest, and may fail by itself."""
    found = _stored(group, node_id)
    if found is None:
        return None
    agent_id = found["node"]["agent_id"]
    resting = attempt(lambda: from_database(lambda c: reads.resting_on(c, group, agent_id, node_id, MAX_RESTING)))
    nearest = attempt(lambda: from_database(lambda c: reads.nearest(c, group, node_id, NEAREST)))
    apart = {"resting": resting.value, "resting_unknown": resting.reason or None}
    return {**found, **apart, "nearest": nearest.value, "nearest_unknown": nearest.reason or None}


@reads_database
def _stored(connection: Connection, group: str, node_id: UUID) -> Context | None:
    node = reads.node(connection, reads.StoredMemory, group, node_id)
    if node is None:
        return None
    said = [entry for entry in node.filling if isinstance(entry, list) and len(entry) == 2]
    reasons = why(connection, group, node_id, DEPTH, MOST_REASONS)
    evidence = reasons.nodes[node_id].evidence
    return {
        "node": node.model_dump(exclude={"filling"}),
        "reasons": reasons,
        "evidence": [reasons.nodes[id_] for id_ in evidence if id_ in reasons.nodes],
        "evidence_count": len(evidence),  # with what is not there or not shown
        "utterances": [{"speaker": str(speaker), "text": str(text)} for speaker, text in said[:MAX_UTTERANCES]],
        "utterance_count": len(said),
        "session": reads.in_session(connection, group, node_id, BESIDE),
        "replaced_by": next(iter(reads.brief_nodes(connection, group, [node.superseded_by])), None) if node.superseded_by else None,
        "replaces": reads.brief_nodes(connection, group, node.supersedes),
        **events.became(connection, group, node_id)._asdict(),
    }


def _why_address(node: Context) -> str:
    """Where its components for the question that led here are to be had, with the settings it was asked with."""
    given: dict[str, Any] = {name: values for name, values in request.args.lists() if name.startswith("a.") or name in ("focal", *FILTERS)}
    return url_for("playground.one", **given | {"group": node["group_id"], "node_id": node["node_id"], "agent": node["agent_id"]})


IDS = {"node_ids": "node_id"}
door(blueprint, f"{ADDRESS}/archive", actions.archive, "memories.node", name="archive", named=IDS)
door(blueprint, f"{ADDRESS}/restore", actions.restore, "memories.node", name="restore", named=IDS)
door(blueprint, f"{ADDRESS}/delete", request_erasure, "erasure.one", name="delete", named=IDS, scope="admin")
door(blueprint, f"{ADDRESS}/correct", actions.update_memory, "memories.node", name="correct")
