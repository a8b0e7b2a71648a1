"""The catalogue of commands is what the registry has."""

from __future__ import annotations

from jiyi.protocol.conversations.catalogue import COMMANDS
from models.actions import ACTIONS

SEED = (
    "memory_store memory_get memory_search memory_delete memory_delete_all memory_stats memory_export memory_import "
    "memory_build_context memory_db_path memory_init viking_add viking_add_with_metadata viking_find viking_grep viking_ls viking_tree "
    "viking_read viking_remove viking_inject_prompt viking_configure_embedding viking_configure_summary_driver "
    "viking_store_with_summaries viking_status viking_load_industry_keywords extract_session_memories extract_and_store_memories "
    "estimate_content_tokens embedding_create embedding_providers agent_get"
).split()


def test_every_named_command_is_there() -> None:
    assert set(SEED) <= set(COMMANDS)
    assert sum(name.startswith("compactor_") for name in COMMANDS) == 4


def test_the_catalogue_agrees_with_the_registry() -> None:
    for name, (request, result, queue) in COMMANDS.items():
        action = ACTIONS[name]
        assert (action.request, action.result, action.queue) == (request, result, queue), name
