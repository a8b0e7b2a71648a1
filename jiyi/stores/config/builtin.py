"""The built-in types."""

from __future__ import annotations

from jiyi.stores.config.registry import register_memory_store
from jiyi.stores.config.types import BlackboardMemoryConfig, FileMemoryConfig, LongTermConfig, Mem0MemoryConfig, SimpleMemoryConfig
from jiyi.stores.longterm import LongTermStore

register_memory_store("simple", config_cls=SimpleMemoryConfig, summary="What agents said, found by meaning and by words; read and written.")
register_memory_store("file", config_cls=FileMemoryConfig, summary="The texts of files, indexed in chunks and kept up to date; only read.")
register_memory_store("blackboard", config_cls=BlackboardMemoryConfig, summary="The latest that agents said, oldest first; no vectors.")
register_memory_store(
    "memory", config_cls=LongTermConfig, factory=LongTermStore, summary="Jiyi's long-term memory of an agent: its retrieval and its events."
)
register_memory_store(
    "mem0", config_cls=Mem0MemoryConfig, summary="A store that mem0 keeps: it searches, and what is written is sent to it."
)
