"""Erasure in declared stores: items that name the person or are of an erased agent, their attachments, files
by their names, the log.

An item is deleted whole, with the attachments that no other item has. All workers read its store again.
Files of sources, and files that stores were saved to, are not the service's: what they say comes back when
they are read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, select, text

from models.erasure.parts import ErasurePart, Scrubbed, register
from models.stores import reads
from models.stores.tables import StoreItem

SCRUBBED = (
    Scrubbed(
        "store_items",
        "item_id::text",
        "key, content_summary, input_snapshot::text, output_snapshot::text, metadata::text",
    ),
    Scrubbed("store_files", "file_id::text", "source, path, state_reason"),
    Scrubbed("store_operations", "operation_id::text", "graph, run_id, node_id, stores::text"),
    Scrubbed("store_nodes", "graph || '/' || node_id || '/' || number::text", "graph, node_id, store_name"),
    Scrubbed("stores", "store_id::text", "name, run_id, config::text, state_reason"),
)


def delete_of_agents(connection: Connection, group_id: str, agents: Sequence[str]) -> Counter[str]:
    """What these agents said in the group's stores: items by their role."""
    gone = connection.execute(_DELETE_OF_AGENTS, {"group": group_id, "agents": list(agents)}).rowcount
    return Counter({"store_items": gone})


def tidy(connection: Connection, group_id: str) -> Counter[str]:
    """Delete chunks of deleted files and attachments of deleted items; readers read the stores again."""
    connection.execute(_DROP_CHUNKS, {"group": group_id})
    gone = connection.execute(_DROP_ATTACHMENTS, {"group": group_id}).rowcount
    connection.execute(_READ_AGAIN, {"group": group_id})
    return Counter({"attachments": gone})


_DELETE_OF_AGENTS = text(
    "DELETE FROM store_items WHERE group_id = :group AND metadata ->> 'agent_role' = ANY(:agents)"
)
_DROP_CHUNKS = text("""
    DELETE FROM store_items i WHERE i.group_id = :group AND i.file_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM store_files f WHERE f.group_id = i.group_id AND f.file_id = i.file_id
    )
""")
_DROP_ATTACHMENTS = text("""
    DELETE FROM attachments a WHERE a.group_id = :group AND NOT EXISTS (
        SELECT FROM store_items i WHERE i.group_id = a.group_id AND i.store_id = a.store_id
        AND i.attachments @> ARRAY[a.sha256]
    )
""")
_READ_AGAIN = text(
    "UPDATE stores SET revision = revision + 1, generation = generation + 1 WHERE group_id = :group"
)
# Who speaks into a store is an agent here, with or without memories.
_ROLE = StoreItem.item_metadata["agent_role"].astext

register(
    ErasurePart(
        scrubbed=SCRUBBED,
        agents=(select(_ROLE).where(StoreItem.group_id == bindparam("group"), _ROLE.is_not(None)),),
        delete_of_agents=delete_of_agents,
        tidy=tidy,
        forget=reads.forget,
    )
)
