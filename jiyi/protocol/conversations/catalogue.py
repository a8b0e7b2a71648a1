"""Every command on conversations by its name: what it takes, what it gives, and which queue of the broker answers it."""

from __future__ import annotations

from pydantic import BaseModel

from jiyi.protocol.conversations.commands import (
    AddResource,
    AddWithMetadata,
    AgentId,
    AgentWithProfile,
    ConfigureEmbedding,
    ConfigureSummaries,
    DatabasePath,
    Deletion,
    Done,
    DriverState,
    EmbeddedText,
    EmbedText,
    Entries,
    EstimateTokens,
    ExportMemories,
    ExtractMessages,
    FindOptions,
    FoundMemory,
    GrepOptions,
    Imported,
    ImportMemories,
    IndustryWords,
    MemoryEntryInput,
    MemoryId,
    MemoryStats,
    Nothing,
    ReadOptions,
    Resources,
    ResourceTexts,
    ResourceUri,
    SearchOptions,
    SessionMemories,
    StorageStatus,
    StoredMemory,
    StoredSession,
    Tokens,
    TreeOptions,
)
from jiyi.protocol.conversations.compaction import CheckThreshold, Compacted, CompactMessages, CountMessages, Threshold
from jiyi.protocol.conversations.injection import ContextRequest, InjectedContext, InjectRequest
from jiyi.protocol.providers import EmbedderReport
from jiyi.protocol.queries import CHANGES, QUEUE
from jiyi.protocol.reembedding import MoveState

#: Name → request, result, queue. ``models.conversations`` has what each does.
COMMANDS: dict[str, tuple[type[BaseModel], type[BaseModel], str]] = {
    "memory_search": (SearchOptions, Entries, QUEUE),
    "memory_store": (MemoryEntryInput, StoredMemory, CHANGES),
    "memory_get": (MemoryId, FoundMemory, QUEUE),
    "memory_delete": (MemoryId, Deletion, CHANGES),
    "memory_delete_all": (AgentId, Deletion, CHANGES),
    "memory_stats": (Nothing, MemoryStats, QUEUE),
    "memory_export": (ExportMemories, Entries, QUEUE),
    "memory_import": (ImportMemories, Imported, CHANGES),
    "memory_db_path": (Nothing, DatabasePath, QUEUE),
    "memory_init": (Nothing, Done, QUEUE),
    "viking_find": (FindOptions, Entries, QUEUE),
    "viking_configure_embedding": (ConfigureEmbedding, MoveState, "embedding"),
    "viking_configure_summary_driver": (ConfigureSummaries, DriverState, QUEUE),
    "viking_add": (AddResource, StoredMemory, CHANGES),
    "viking_add_with_metadata": (AddWithMetadata, StoredMemory, CHANGES),
    "viking_store_with_summaries": (AddResource, StoredMemory, CHANGES),
    "viking_grep": (GrepOptions, Entries, QUEUE),
    "viking_ls": (ResourceUri, Resources, QUEUE),
    "viking_tree": (TreeOptions, Resources, QUEUE),
    "viking_read": (ReadOptions, ResourceTexts, QUEUE),
    "viking_remove": (ResourceUri, Deletion, CHANGES),
    "viking_status": (Nothing, StorageStatus, QUEUE),
    "viking_load_industry_keywords": (IndustryWords, Done, CHANGES),
    "memory_build_context": (ContextRequest, InjectedContext, QUEUE),
    "viking_inject_prompt": (InjectRequest, InjectedContext, QUEUE),
    "extract_session_memories": (ExtractMessages, SessionMemories, QUEUE),
    "embedding_create": (EmbedText, EmbeddedText, QUEUE),
    "embedding_providers": (Nothing, EmbedderReport, QUEUE),
    "compactor_compact": (CompactMessages, Compacted, QUEUE),
    "extract_and_store_memories": (ExtractMessages, StoredSession, CHANGES),
    "estimate_content_tokens": (EstimateTokens, Tokens, QUEUE),
    "agent_get": (AgentId, AgentWithProfile, QUEUE),
    "compactor_estimate_text_tokens": (EstimateTokens, Tokens, QUEUE),
    "compactor_estimate_messages_tokens": (CountMessages, Tokens, QUEUE),
    "compactor_check_threshold": (CheckThreshold, Threshold, QUEUE),
}
