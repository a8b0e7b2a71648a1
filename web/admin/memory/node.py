"""One memory: what it says, what it rests on, what stands around it, how it came. Its routes are those of ``memories``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, abort, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext
from sqlalchemy import Connection

from jiyi.protocol.erasure import Erasure
from jiyi.protocol.reflection import Reasons
from models.erasure.actions import request_erasure
from models.memory import actions, events, reads
from models.reflection.reads import why
from web.accounts.identity import need
from web.admin import frame
from web.admin.acting import perform
from web.admin.memory.evidence import Graph, tree
from web.admin.retrieval.playground import FILTERS
from web.answers import answer
from web.sources import attempt, from_database

#: Levels of evidence and memories of them that are shown: as `jiyi why` does, and as many as a page can hold.
DEPTH, MOST_REASONS = 5, 60
#: Memories resting on one, its nearest, and those before and after it in its session, that a page shows.
MAX_RESTING, NEAREST, BESIDE = 50, 8, 3
#: Longest question that may have led here; the settings bound it once more.
MAX_FOCAL = 100_000
#: Entries of a conversation that a page shows.
MAX_UTTERANCES = 200


def add_routes(blueprint: Blueprint) -> None:
    blueprint.add_url_rule("/nodes/<name:group>/<uuid:node_id>", "node", page)
    blueprint.add_url_rule("/nodes/<name:group>/<uuid:node_id>.json", "node_json", page)
    blueprint.add_url_rule("/nodes/<name:group>/<uuid:node_id>/archive", "archive", archive, methods=["POST"])
    blueprint.add_url_rule("/nodes/<name:group>/<uuid:node_id>/restore", "restore", restore, methods=["POST"])
    blueprint.add_url_rule("/nodes/<name:group>/<uuid:node_id>/delete", "delete", delete, methods=["POST"])


@dataclass(frozen=True)
class _Stored:
    """What one look at the database gives of a memory."""

    memory: reads.StoredMemory
    reasons: Reasons
    around: dict[str, object]


def page(group: str, node_id: UUID) -> Response:
    """The memory with everything around it. What takes long is asked apart from the rest, and may fail by itself."""
    found = from_database(lambda connection: _stored(connection, group, node_id))
    if found is None:
        abort(404, gettext("There is no memory %(id)s in the group “%(group)s”.", id=node_id, group=group))
    resting = attempt(lambda: from_database(lambda c: reads.resting_on(c, group, found.memory.agent_id, node_id, MAX_RESTING)))
    nearest = attempt(lambda: from_database(lambda c: reads.nearest(c, group, node_id, NEAREST)))
    data = {
        "group": group,
        "node": found.memory.model_dump(exclude={"filling"}),
        "reasons": found.reasons,
        **found.around,
        **_evidence(found.reasons, node_id),
        "resting": resting.value,
        "resting_unknown": resting.reason or None,
        "nearest": nearest.value,
        "nearest_unknown": nearest.reason or None,
    }
    return answer(
        "node.html",
        data=data,
        focal=frame.asked("focal", MAX_FOCAL),
        why_address=_why_address(found.memory),
        tree=tree(found.reasons),
        graph=Graph(found.reasons, resting.value or []),
    )


def _why_address(node: reads.StoredMemory) -> str:
    """Where its components for the question that led here are to be had, with the settings it was asked with."""
    given: dict[str, Any] = {name: values for name, values in request.args.lists() if name.startswith("a.") or name in ("focal", *FILTERS)}
    given |= {"group": node.group_id, "node_id": node.node_id, "agent": node.agent_id}
    return url_for("playground.one", **given)


def _stored(connection: Connection, group: str, node_id: UUID) -> _Stored | None:
    node = reads.node(connection, reads.StoredMemory, group, node_id)
    if node is None:
        return None
    said = [entry for entry in node.filling if isinstance(entry, list) and len(entry) == 2]
    around: dict[str, object] = {
        "utterances": [{"speaker": str(speaker), "text": str(text)} for speaker, text in said[:MAX_UTTERANCES]],
        "utterance_count": len(said),
        "session": reads.in_session(connection, group, node_id, BESIDE),
        "event": events.event(connection, events.EventRecord, group, node_id),
        "owed": events.owed(connection, group, node_id),
        "letters": events.letters(connection, group, node_id),
    }
    return _Stored(node, why(connection, group, node_id, DEPTH, MOST_REASONS), around)


def _evidence(found: Reasons, node_id: UUID) -> dict[str, object]:
    """What it rests on directly; counted with what is not there or not shown."""
    ids = found.nodes[node_id].evidence
    nodes = [found.nodes[id_] for id_ in ids if id_ in found.nodes]
    return {"evidence": nodes, "evidence_count": len(ids)}


def archive(group: str, node_id: UUID) -> ResponseReturnValue:
    """Safe to repeat because what is archived stays so."""
    perform(actions.archive, node_ids=[node_id])
    return _back(group, node_id)


def restore(group: str, node_id: UUID) -> ResponseReturnValue:
    """Safe to repeat because only what is archived is restored."""
    perform(actions.restore, node_ids=[node_id])
    return _back(group, node_id)


def delete(group: str, node_id: UUID) -> ResponseReturnValue:
    """Ask for the erasure of the memory and all that was derived from it; a worker does it. Safe to repeat because what is
    erased is not found again.
    """
    need("admin")
    _require(group, node_id)
    done = perform(request_erasure, Erasure(node_ids=[node_id]))
    return redirect(url_for("erasure.one", group=group, erasure_id=done.erasure_id), 303)


def _require(group: str, node_id: UUID) -> None:
    if not from_database(lambda connection: reads.brief_nodes(connection, group, [node_id])):
        abort(404, gettext("There is no memory %(id)s in the group “%(group)s”.", id=node_id, group=group))


def _back(group: str, node_id: UUID) -> ResponseReturnValue:
    return redirect(url_for("memories.node", group=group, node_id=node_id), 303)
