"""Erasure in items: those that name the person, or are an agent's, go.

A part of an item's namespace that is an agent's name says that the item is that agent's. The texts of an item go with it.
"""

from __future__ import annotations

from models.erasure.parts import Part, Scrubbed, register

SCRUBBED: tuple[Scrubbed, ...] = (
    ("items", "item_id::text", "array_to_string(namespace, chr(1)), key, value::text", "group_id = :group", "DELETE FROM items"),
    ("item_texts", "item_id::text || '/' || number::text", "content", "group_id = :group", "DELETE FROM item_texts"),
)

register(Part(scrubbed=SCRUBBED))
