"""Erasure in items: one goes if its namespace, its key or its value names whom it is about.

A part of a namespace that is an agent's name says that the item is that agent's.
"""

from __future__ import annotations

#: As in :data:`models.erasure.subjects.conversations.SCRUBBED`. What the database deletes with an item are its texts.
SCRUBBED = (
    ("items", "item_id::text", "array_to_string(namespace, chr(1)), key, value::text", "group_id = :group", "DELETE FROM items"),
    ("item_texts", "item_id::text || '/' || number::text", "content", "group_id = :group", "DELETE FROM item_texts"),
)
