"""The table of actions: one name for each, ``subject.verb``; other programs' names for them are aliases."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from pydantic import BaseModel

from jiyi.protocol.actions import ALIASES, ALIASES_OF, TABLE, name_of
from models.actions import ACTIONS
from models.db.actions import Context, action

#: Names that programs written for the desktop agent's memory call.
OF_THE_DESKTOP_AGENT = (
    "memory_store memory_get memory_search memory_delete memory_delete_all memory_stats memory_export"
    " memory_import memory_build_context memory_db_path memory_init viking_add viking_add_with_metadata"
    " viking_find viking_grep viking_ls viking_tree viking_read viking_remove viking_inject_prompt"
    " viking_configure_embedding viking_configure_summary_driver viking_store_with_summaries viking_status"
    " viking_load_industry_keywords extract_session_memories extract_and_store_memories"
    " estimate_content_tokens embedding_create embedding_providers agent_get health_snapshot"
    " compactor_compact compactor_check_threshold compactor_estimate_text_tokens"
    " compactor_estimate_messages_tokens"
).split()


def test_names_of_other_programs_are_aliases() -> None:
    assert set(OF_THE_DESKTOP_AGENT) == ALIASES.keys()
    assert not ALIASES.keys() & TABLE.keys()
    assert set(ALIASES.values()) <= TABLE.keys()
    assert len(ALIASES) == sum(map(len, ALIASES_OF.values()))
    assert set(ALIASES_OF["resources.add"]) == {
        "viking_add",
        "viking_add_with_metadata",
        "viking_store_with_summaries",
    }
    assert (name_of("viking_add"), name_of("resources.add"), name_of("no_such")) == (
        "resources.add",
        "resources.add",
        "no_such",
    )


def test_each_row_is_a_subject_and_a_verb_and_has_a_described_function_or_workers() -> None:
    for name in TABLE:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*", name)
        known = ACTIONS[name]
        assert known.doc, name
        assert issubclass(known.request, BaseModel)
        assert "group_id" not in known.request.model_fields, "the group is the actor's, not the request's"
    assert len({re.sub(r"\W|_", "", name) for name in TABLE}) == len(
        TABLE
    )  # none differ by punctuation alone


def test_the_fields_of_every_request_are_known_before_the_first_is_made() -> None:
    """Forms read them: a name that a model's module defines only below it would leave them unresolved until
    then.
    """
    program = (
        "from models.actions import ACTIONS; print([n for n, a in ACTIONS.items() if not"
        " a.request.__pydantic_fields_complete__])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_function_has_the_request_and_the_result_of_its_row() -> None:
    def wrong(context: Context, request: BaseModel) -> BaseModel:
        raise NotImplementedError

    with pytest.raises(TypeError, match="declares another request"):
        action("jobs.list")(wrong)
