"""Erasure in the three tiers: outputs in quarantine, knowledge, its history, digests, working memory.

Knowledge that was promoted from an erased output, or is an edit of erased knowledge, is derived from it and
goes, too; so does what a digest says of erased outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import UUID

from sqlalchemy import Connection, bindparam, func, literal_column, select, table, text

from engine.erasure import Names
from models.erasure.matching import note_ids
from models.erasure.parts import ErasurePart, Scrubbed, register
from models.tiers import working
from models.tiers.tables import KnowledgeRow, QuarantineLog

SCRUBBED = (
    Scrubbed(
        "digest_items",
        "digest_id::text || '/' || number::text",
        "topic, summary, array_to_string(keywords, ' ')",
    ),
    Scrubbed("knowledge_history", "history_id::text", "reason", "UPDATE knowledge_history SET reason = ''"),
)
#: Rows read at once.
PAGE = 5_000

#: What an agent said in workflows, and what is known to it alone.
OF_AGENTS = (QuarantineLog.entry_id, KnowledgeRow.knowledge_id)


def note_named(connection: Connection, erasure_id: UUID, group_id: str, names: Names) -> int:
    """Outputs and knowledge that name the person, now or in an earlier version."""
    noted = 0
    for source in _TEXTS:
        ids = [key for key, content in _texts(connection, source, group_id) if names.found_in(content)]
        # of the other tables: of the knowledge that they are about
        key = QuarantineLog.entry_id if source == "quarantine_logs" else KnowledgeRow.knowledge_id
        noted += note_ids(connection, erasure_id, group_id, key, ids)
    return noted


def note_resting(connection: Connection, erasure_id: UUID, group_id: str) -> int:
    """Knowledge derived from something noted, one level: call it until it finds nothing."""
    return connection.execute(_NOTE_RESTING, {"erasure": erasure_id, "group": group_id}).rowcount


def delete(connection: Connection, group_id: str, ids: Sequence[UUID]) -> Counter[str]:
    """Delete these from the tiers. The next reader rebuilds working memory."""
    these = {"group": group_id, "ids": list(ids)}
    gone: Counter[str] = Counter()
    for name, statement in _DELETE.items():
        gone[name] += connection.execute(statement, these).rowcount
    outputs = list(connection.execute(_DELETE_OUTPUTS, these).scalars())
    gone["quarantine_logs"] = len(outputs)
    # The event of an old output may have been pruned: from now on it has to be known again.
    connection.execute(_REMEMBER, these | {"ids": outputs})
    connection.execute(_UNLINK, these)
    return gone


def clear_valkey(group_id: str) -> dict[str, int]:
    """Delete all of working memory: it is rebuilt from quarantine. Returns how many entries there were."""
    count = working.size(group_id)
    working.forget(group_id)
    return {"working_memory": count}


def _texts(connection: Connection, table: str, group_id: str) -> Iterator[tuple[UUID, str]]:
    after = UUID(int=0)
    while rows := connection.execute(_TEXTS[table], {"group": group_id, "after": after, "limit": PAGE}).all():
        for row in rows:
            yield row.subject, row.content
        after = rows[-1].key


_OUTPUT = """
    agent_id, session_id, node_id, node_type, node_name, content, array_to_string(flags, ' '),
    rejected_details::text,
    metadata::text, provenance::text
"""
_TEXTS = {
    name: (
        select(
            literal_column(key).label("key"),
            literal_column(subject).label("subject"),
            func.concat_ws(func.chr(1), literal_column(content)).label("content"),
        )
        .select_from(table(name))
        .where(text("group_id = :group"), literal_column(key) > bindparam("after"))
        .order_by(literal_column(key))
        .limit(bindparam("limit"))
    )
    for name, key, subject, content in (
        ("quarantine_logs", "entry_id", "entry_id", _OUTPUT),
        ("knowledge", "knowledge_id", "knowledge_id", "agent_id, session_id, content, metadata::text"),
        ("knowledge_history", "history_id", "knowledge_id", "before, after"),
    )
}
_NOTE_RESTING = text("""
    INSERT INTO erasing_ids (erasure_id, subject_id, group_id, agent_id)
    SELECT DISTINCT :erasure, k.knowledge_id, k.group_id, coalesce(k.agent_id, '')
    FROM knowledge k CROSS JOIN LATERAL (
        SELECT jsonb_array_elements_text(CASE jsonb_typeof(k.metadata -> 'entry_ids') WHEN 'array'
            THEN k.metadata -> 'entry_ids' ELSE '[]' END) AS id
        UNION ALL SELECT k.metadata ->> 'edited_from'
    ) AS source
    JOIN erasing_ids n ON n.erasure_id = :erasure AND n.subject_id::text = source.id
    WHERE k.group_id = :group ON CONFLICT DO NOTHING
""")
_DELETE = {
    "knowledge_history": text(
        "DELETE FROM knowledge_history WHERE group_id = :group AND knowledge_id = ANY(:ids)"
    ),
    "knowledge": text("DELETE FROM knowledge WHERE group_id = :group AND knowledge_id = ANY(:ids)"),
    "digest_items": text(
        "DELETE FROM digest_items WHERE group_id = :group AND entry_ids && CAST(:ids AS uuid[])"
    ),
}
_DELETE_OUTPUTS = text(
    "DELETE FROM quarantine_logs WHERE group_id = :group AND entry_id = ANY(:ids) RETURNING entry_id"
)
_REMEMBER = text("""
    INSERT INTO events (event_id, type, version, group_id, agent_id, occurred_at, payload, outcome)
    SELECT id, 'node.executed', 1, :group, '', now(), '{}', 'erased'
    FROM unnest(CAST(:ids AS uuid[])) AS n(id)
    ON CONFLICT DO NOTHING
""")
_UNLINK = text("UPDATE knowledge SET replaced_by = NULL WHERE group_id = :group AND replaced_by = ANY(:ids)")

register(
    ErasurePart(
        scrubbed=SCRUBBED,
        vacuumed=("quarantine_logs", "knowledge", "knowledge_history", "digest_items"),
        of_agents=OF_AGENTS,
        # Who speaks in a workflow, or has knowledge of their own, is an agent here, with or without memories.
        agents=(
            select(QuarantineLog.agent_id).where(QuarantineLog.group_id == bindparam("group")),
            select(KnowledgeRow.agent_id).where(
                KnowledgeRow.group_id == bindparam("group"), KnowledgeRow.agent_id.is_not(None)
            ),
        ),
        note_named=note_named,
        note_resting=note_resting,
        delete=delete,
        clear_valkey=clear_valkey,
        previewed={"outputs": QuarantineLog.entry_id, "knowledge": KnowledgeRow.knowledge_id},
    )
)
