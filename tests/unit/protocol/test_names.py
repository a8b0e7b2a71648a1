"""One name for one thing in every interface: no request uses another word for what has a name already, and
every list has one shape.
"""

from __future__ import annotations

import pytest
from pydantic import BaseModel

import web.api  # noqa: F401 – its operations
from jiyi.protocol.actions import TABLE
from jiyi.protocol.base import Paged, Rows
from web.api.registry import OPERATIONS

#: Name → other words for it, of which docs/api.md has the table.
SYNONYMS = {
    "query": {"q", "question", "problem", "focal_text", "focal", "search_text", "user_input"},
    "queries": {"focal_texts", "questions"},
    "words": {"contains", "search_words"},
    "messages": {"turns", "dialogue", "chat", "history"},
    "agent_id": {"agent", "agent_name", "owner"},
    "user_id": {"user", "user_name"},
    "session_id": {"session", "conversation_id", "thread_id", "chat_id"},
    "id": {
        "memory_id",
        "reflection_id",
        "erasure_id",
        "letter_id",
        "retrieval_id",
        "knowledge_id",
        "entry_id",
        "pain_id",
        "key_id",
    },
    "reason": {"why", "cause", "justification"},
    "limit": {"page_size", "size", "max_results", "count_limit"},
    "cursor": {"after", "before", "page", "page_token", "next"},
}
#: What looks through memories of conversations and tiers counts results of a ranking, whose depth is no page.
RANKED = {"query_memory": {"max_results"}}

REQUESTS = {name: declared.request for name, declared in TABLE.items()}
REQUESTS |= {
    f"{one.id} {kind}": model
    for one in OPERATIONS
    for kind in ("body", "query")
    if (model := getattr(one, kind)) is not None
}


@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_has_another_word_for_what_has_a_name(name: str) -> None:
    used = set(REQUESTS[name].model_fields) - RANKED.get(name.partition(" ")[0], set())
    assert not {wanted: found for wanted, words in SYNONYMS.items() if (found := used & words)}


def test_every_list_with_a_cursor_answers_with_rows_and_the_next_one() -> None:
    lists = [declared for declared in TABLE.values() if "cursor" in declared.request.model_fields]
    assert len(lists) > 20
    for declared in lists:
        assert issubclass(declared.request, Paged), declared.name
        assert isinstance(declared.result, type) and issubclass(declared.result, BaseModel), declared.name
        assert issubclass(declared.result, Rows), declared.name
