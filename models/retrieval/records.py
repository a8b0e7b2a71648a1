"""Recent retrievals with their results, noted in Valkey with the reply, written in batches, read by people;
and recent accesses.

Losing some is harmless: nothing rests on them. Questions are personal data, so few are kept, and not for long
(``JIYI_RETRIEVALS_KEPT``, ``KEPT_DAYS``). Accesses of an agent's memories are published to all retrieval
workers at once; the database follows a second later.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, cast
from uuid import UUID

from pydantic_core import from_json, to_json
from redis.client import Pipeline
from sqlalchemy import Connection, text
from uuid6 import uuid7

from jiyi.errors import NotFound
from jiyi.protocol.base import BY_ID, OfAgents, Rows
from jiyi.protocol.recall import RetrievalRecord, ReturnedMemory
from jiyi.protocol.retrieval import Question
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.actions import Actor, Context, action, by_worker
from models.db.connection import unit_of_work
from models.db.rows import page
from models.db.scope import whole_service
from models.db.valkey import valkey
from models.memory.agents import known_agent

#: Days after which a note is deleted.
KEPT_DAYS = 7
#: Memories of one focal text, and characters of a text, that are kept.
RESULTS, CHARACTERS = 30, 2_000
#: Characters of a memory that are shown with its rank.
EXCERPT = 300
#: Notes that wait to be written at most: without a worker that writes them the oldest go.
WAITING = 5_000
#: Notes written by one statement.
BATCH = 500
#: Fields of a question that are no options, or are noted elsewhere.
_NO_OPTIONS = {"group_id", "agent_id", "queries", "messages", "vectors", "touch"}
#: Of one focal text: (memory, score), best first.
Returned = Sequence[tuple[UUID, float]]
#: Entries kept for an agent, and seconds for which each is kept: a reader that was away for longer catches up
#: from the database.
KEPT, KEPT_SECONDS = 1_000, 300
#: Seconds after which an agent that nobody asks is forgotten here.
FORGOTTEN_AFTER = 3_600
#: A new reader looks this far back, beyond what the database may not know yet. Seconds.
LOOK_BACK = 60
#: Most agents scanned for those accessed last.
MAX_AGENTS = 10_000


def options_of(question: Question) -> dict[str, Any]:
    """What a question says beside its texts that is no default; of a dialogue how many messages it has."""
    options = question.model_dump(mode="json", exclude_defaults=True, exclude=_NO_OPTIONS)
    return options | ({"messages": len(question.messages)} if question.messages else {})


def note(
    pipe: Pipeline,
    actor: Actor,
    agent_id: str,
    queries: Sequence[str],
    options: dict[str, Any],
    returned: Sequence[Returned],
    seconds: float,
    answered_at: datetime,
) -> None:
    """Note what an actor asked and what was returned for each focal text, in a pipeline of the caller's.

    ``answered_at`` is when the ``seconds`` that it took were over.
    """
    if not get_settings().retrievals_kept:
        return
    best = [nodes[:RESULTS] for nodes in returned]
    record = {
        "retrieval_id": uuid7(),
        "group_id": actor.group_id,
        "agent_id": agent_id,
        "asked_at": answered_at,
        "asked_by": actor.name,
        "focal_texts": [text[:CHARACTERS] for text in queries],
        "options": options,
        "ms": round(seconds * 1_000, 1),
        "found": [len(nodes) for nodes in returned],
        "node_ids": [node_id for nodes in best for node_id, _ in nodes],
        "scores": [score for nodes in best for _, score in nodes],
    }
    pipe.rpush(valkey_keys.RETRIEVALS, to_json(record, inf_nan_mode="null"))
    pipe.ltrim(valkey_keys.RETRIEVALS, -WAITING, -1)


def flush() -> int:
    """Write what was noted, and drop the oldest of each agent; returns how many were written.

    Safe to repeat because notes are taken out before they are written; losing those of a dead flush is
    harmless.
    """
    written, limit = 0, get_settings().retrievals_kept
    while waiting := cast("list[bytes] | None", valkey().lpop(valkey_keys.RETRIEVALS, BATCH)):
        with whole_service(), unit_of_work() as connection:  # the notes are everybody's
            agents = connection.execute(_WRITE, {"rows": f"[{b','.join(waiting).decode()}]"}).all()
            groups, names = [agent.group_id for agent in agents], [agent.agent_id for agent in agents]
            connection.execute(_DROP, {"groups": groups, "agents": names, "kept": limit})
        written += len(agents)
        if len(waiting) < BATCH:
            break
    return written


def listed(
    connection: Connection, group_id: str, agent_id: str | None, before: UUID | None, limit: int
) -> list[RetrievalRecord]:
    """The group's retrievals, or an agent's, newest first; those before an id."""
    parameters = {"group": group_id, "agent": agent_id, "before": before, "limit": limit}
    rows = connection.execute(_LISTED, parameters).mappings().all()
    ids = list({node_id for row in rows for node_id in row["node_ids"]})
    excerpts = {
        row.node_id: row.excerpt
        for row in connection.execute(_EXCERPTS, {"group": group_id, "ids": ids, "length": EXCERPT})
    }
    return [_record(dict(row), excerpts) for row in rows]


def _record(row: dict[str, Any], excerpts: Mapping[UUID, str]) -> RetrievalRecord:
    pairs = iter(zip(row.pop("node_ids"), row.pop("scores"), strict=True))
    results = [
        [
            ReturnedMemory(node_id=node_id, score=score, description=excerpts.get(node_id))
            for _, (node_id, score) in zip(range(min(count, RESULTS)), pairs, strict=False)
        ]
        for count in row["found"]
    ]
    return RetrievalRecord.model_construct(**row, results=results)


def recorded(connection: Connection, group_id: str, retrieval_id: UUID) -> RetrievalRecord:
    """One recent retrieval. Raises :class:`NotFound`."""
    # ``before`` is exclusive, and the ids of one moment follow one another.
    rows = listed(connection, group_id, None, UUID(int=retrieval_id.int + 1), 1)
    if not rows or rows[0].retrieval_id != retrieval_id:
        raise NotFound(
            f"id: the group {group_id!r} has no retrieval {retrieval_id}, or it is too old to be kept"
        )
    return rows[0]


ask_again = by_worker("retrieval.again")


@action("retrieval.list")
def list_retrievals(context: Context, request: OfAgents) -> Rows[RetrievalRecord]:
    """List recent retrievals.

    The group's, or an agent's, newest first, page by page: what was asked, by whom, which options, how long
    it took, and what was returned. They are written a moment later; the latest of each agent are kept, for
    some days.
    """
    rows = listed(
        context.connection, context.group_id, request.agent_id, request.place(BY_ID), request.limit + 1
    )
    if not rows and request.agent_id is not None:
        known_agent(context.connection, context.group_id, request.agent_id)
    return page(rows, request.limit, lambda last: last.retrieval_id)


def publish_accesses(group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """Publish that the memories were accessed at ``at`` (epoch seconds, maybe simulated)."""
    with valkey().pipeline(transaction=False) as pipe:
        publish_accesses_with(pipe, group_id, agent_id, node_ids, at)
        pipe.execute()


def publish_accesses_with(
    pipe: Pipeline, group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float
) -> None:
    """The same in a pipeline of the caller's."""
    key = valkey_keys.touched(group_id, agent_id)
    entry = to_json({"at": at, "ids": node_ids})
    pipe.xadd(key, {"touch": entry}, maxlen=KEPT, approximate=True)
    pipe.xtrim(key, minid=_place(KEPT_SECONDS), approximate=True)
    pipe.expire(key, FORGOTTEN_AFTER)


def asked_lately(limit: int) -> list[tuple[str, str]]:
    """(group_id, agent_id) of up to ``limit`` agents whose memories were accessed last, the latest first."""
    keys = [
        key.decode()
        for key in islice(valkey().scan_iter(match=f"{valkey_keys.TOUCHED}*", count=1_000), MAX_AGENTS)
    ]
    with valkey().pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.xrevrange(key, count=1)
        last = pipe.execute()
    at = {key: int(entries[0][0].split(b"-")[0]) for key, entries in zip(keys, last, strict=True) if entries}
    return [valkey_keys.touched_agent(key) for key in sorted(at, key=at.__getitem__, reverse=True)[:limit]]


@dataclass(frozen=True, slots=True)
class Access:
    #: 16 bytes each.
    node_ids: list[bytes]
    #: Epoch seconds.
    at: float


class Cursor:
    """One reader's place in an agent's accesses.

    ``missed``: it was away for so long that some may be gone; who has read them in the database sets it to
    False.
    """

    def __init__(self, group_id: str, agent_id: str) -> None:
        self._key = valkey_keys.touched(group_id, agent_id)
        self._place = _place(LOOK_BACK)
        self._read_at = time.monotonic()
        self.missed = False

    def read(self) -> list[Access]:
        accesses: list[Access] = []
        entries = cast(
            "list[tuple[bytes, dict[bytes, bytes]]]", valkey().xrange(self._key, min=f"({self._place}")
        )
        for place, fields in entries:
            self._place = place.decode()
            entry = from_json(fields[b"touch"])
            ids = [bytes.fromhex(node_id.replace("-", "")) for node_id in entry["ids"]]
            accesses.append(Access(ids, entry["at"]))
        away, self._read_at = time.monotonic() - self._read_at, time.monotonic()
        # Entries bear the server's time, which may differ from a writer's by less than the look back.
        self.missed |= away > KEPT_SECONDS - LOOK_BACK or len(accesses) >= KEPT
        return accesses


def _place(seconds: float) -> str:
    """The stream id of an entry added so many seconds ago."""
    return f"{int((time.time() - seconds) * 1000)}-0"


# An agent, or a memory, that was erased since is not named again.
_WRITE = text("""
    INSERT INTO retrievals (retrieval_id, group_id, agent_id, asked_at, asked_by, focal_texts, options, ms,
    found, node_ids, scores)
    SELECT r.* FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(retrieval_id uuid, group_id text, agent_id
    text, asked_at timestamptz,
        asked_by text, focal_texts text[], options jsonb, ms float8, found int[], node_ids uuid[], scores
        float8[])
    JOIN agents a ON a.group_id = r.group_id AND a.agent_id = r.agent_id
    WHERE NOT EXISTS (
        SELECT FROM unnest(r.node_ids) AS one(node_id)
        WHERE NOT EXISTS (SELECT FROM memory_nodes n WHERE n.group_id = r.group_id
        AND n.node_id = one.node_id)
    )
    ON CONFLICT DO NOTHING RETURNING group_id, agent_id
""")
_DROP = text("""
    DELETE FROM retrievals r USING (
        SELECT group_id, agent_id, (
            SELECT k.retrieval_id FROM retrievals k WHERE k.group_id = w.group_id AND k.agent_id = w.agent_id
            ORDER BY k.retrieval_id DESC OFFSET :kept LIMIT 1
        ) AS last FROM (SELECT DISTINCT * FROM unnest(CAST(:groups AS text[]), CAST(:agents AS text[])) AS
        u(group_id, agent_id)) w
    ) d WHERE r.group_id = d.group_id AND r.agent_id = d.agent_id AND r.retrieval_id <= d.last
""")
_LISTED = text("""
    SELECT retrieval_id, agent_id, asked_at, asked_by, focal_texts AS queries, options, ms, found, node_ids,
    scores FROM retrievals
    WHERE group_id = :group AND (CAST(:agent AS text) IS NULL OR agent_id = :agent)
        AND (CAST(:before AS uuid) IS NULL OR retrieval_id < :before)
    ORDER BY retrieval_id DESC LIMIT :limit
""")
_EXCERPTS = text("""
    SELECT node_id, left(description, :length) AS excerpt FROM memory_nodes WHERE group_id = :group
    AND node_id = ANY(:ids)
""")
