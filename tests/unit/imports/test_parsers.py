"""What each source's parser makes of what its service exports."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.imports import files
from jiyi.imports.conversations import chatgpt, claude
from jiyi.imports.drafts import BadTimeError, Draft, ImportTarget, LeftOut, time_of
from jiyi.imports.memories import langmem, letta, mem0, zep

NOW = datetime(2026, 3, 2, tzinfo=UTC)
#: Whatever JSON has.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def drafts(parsed):
    return [item for item in parsed if isinstance(item, Draft)]


def left_out(parsed):
    return [item.reason for item in parsed if isinstance(item, LeftOut)]


def said(parsed):
    return [(draft.role, draft.text) for draft in drafts(parsed)]


def node(name, parent, role, *parts, kind="text", at=1_700_000_000.5):
    content = {"content_type": kind, "parts": list(parts)}
    message = {"id": f"m-{name}", "author": {"role": role}, "create_time": at, "content": content}
    return {"id": name, "parent": parent, "children": [], "message": message}


def tree(*nodes, current):
    mapping = {"root": {"id": "root", "parent": None, "message": None}} | {one["id"]: one for one in nodes}
    head = {"conversation_id": "c1", "title": "Tea", "create_time": 1_700_000_000}
    return {**head, "mapping": mapping, "current_node": current}


def test_of_a_tree_the_branch_that_is_shown_comes_in_and_the_others_are_counted():
    nodes = [
        node("a", "root", "user", "I drink tea"),
        node("b", "a", "assistant", "First try"),
        node("c", "a", "assistant", "Second try", at=None),
        node("d", "c", "user", {"asset_pointer": "file-service://x"}, "看图", kind="multimodal_text"),
        node("e", "d", "assistant", kind="thoughts"),
        node("f", "e", "user", "  "),
        node("g", "f", "critic", "Hm"),
        node("h", "g", "user", "Bye", at="yesterday"),
    ]
    parsed = list(chatgpt(tree(*nodes, current="h")))
    taken = drafts(parsed)
    assert said(taken) == [("user", "I drink tea"), ("assistant", "Second try"), ("user", "看图")]
    assert [draft.key for draft in taken] == [("c1", "m-a"), ("c1", "m-c"), ("c1", "m-d")]
    assert [draft.at.timestamp() for draft in taken] == [1_700_000_000.5, 1_700_000_000, 1_700_000_000.5]
    assert {draft.session for draft in taken} == {"c1"}
    assert left_out(parsed) == ["no text", "empty", "unknown role", "bad time", "other branch"]


def test_of_a_tree_that_goes_round_in_a_circle_each_message_comes_once_and_one_without_a_current_node_ends_with_its_last_leaf():
    circle = tree(node("a", "b", "user", "1"), node("b", "a", "user", "2"), current="a")
    assert [draft.text for draft in drafts(chatgpt(circle))] == ["2", "1"]
    itself = {**circle, "mapping": {"a": node("a", "a", "user", "x")}, "current_node": None}
    assert [draft.text for draft in drafts(chatgpt(itself))] == ["x"]
    headless = tree(node("a", "root", "user", "1"), node("b", "a", "assistant", "2"), current="gone")
    assert [draft.text for draft in drafts(chatgpt(headless))] == ["1", "2"]


def test_messages_of_claude_are_turns_and_what_is_not_in_words_is_left_out():
    parts = [{"type": "text", "text": "To Bergen."}, {"type": "tool_use", "name": "maps"}]
    human, assistant = {"sender": "human"}, {"sender": "assistant"}
    messages = [
        {"uuid": "1", **human, "text": "Where to?", "attachments": [{"file_name": "map.pdf"}]},
        {"uuid": "2", **assistant, "text": "old", "content": parts, "created_at": "2026-01-02T03:05:00Z"},
        {"uuid": "3", **assistant, "text": "", "content": [{"type": "tool_result"}]},
        {"uuid": "4", **human, "text": 7},
    ]
    conversation = {"uuid": "c", "created_at": "2026-01-02T03:04:05.123456Z", "chat_messages": messages}
    parsed = list(claude(conversation))
    assert [(draft.role, draft.text, draft.at.minute) for draft in drafts(parsed)] == [
        ("user", "Where to?", 4),
        ("assistant", "To Bergen.", 5),
    ]
    assert left_out(parsed) == ["no text", "no text", "malformed"]


def test_a_memory_of_mem0_keeps_its_user_agent_run_times_and_metadata():
    row = {
        "id": "0b1c",
        "memory": "Likes oolong",
        "app_id": "shop",
        "metadata": {"x": 1},
        "user_id": "mia",
        "agent_id": "chef",
        "run_id": "r1",
        "created_at": "2025-05-01T10:00:00-07:00",
        "expiration_date": "2030-01-01",
    }
    (draft,) = mem0(row)
    assert (draft.user, draft.agent, draft.session, draft.at.hour) == ("mia", "chef", "r1", 10)
    (event,) = ImportTarget(source="mem0", group="g", now=NOW).events(draft)
    found = event.payload
    assert found.provenance == {"source": "mem0", "id": "0b1c", "app_id": "shop", "metadata": {"x": 1}}
    assert (found.origin, found.expires_at.year, found.historic) == ("import", 2030, True)
    assert left_out(mem0({"id": "x"})) == ["malformed"]
    assert left_out(mem0({**row, "created_at": "soon"})) == ["bad time"]


def test_an_item_of_a_store_says_its_text_or_else_its_json():
    item = {"namespace": ["memories", "mia"], "key": "k", "created_at": "2026-01-01T00:00:00+00:00"}
    for value, text in (
        ({"kind": "Memory", "content": {"content": "Mia eats noodles"}}, "Mia eats noodles"),
        ({"text": "plain"}, "plain"),
        ({"diet": "vegan", "年": 3}, '{"diet": "vegan", "年": 3}'),
    ):
        (draft,) = langmem({**item, "value": value}, 1)
        assert (draft.text, draft.user, draft.key) == (text, "mia", ("memories", "mia", "k"))
        assert drafts(langmem({**item, "value": value, "namespace": "memories.mia"}, 9))[0].user is None


def test_sessions_of_zep_become_turns_and_their_facts_memories():
    moved = {"uuid": "m1", "role": "Mia", "role_type": "user", "content": "I moved to Oslo"}
    session = {
        "session_id": "s",
        "user_id": "mia",
        "created_at": "2026-01-01T00:00:00Z",
        "messages": [
            {**moved, "created_at": "2026-01-01T10:00:00Z"},
            {"role": "ai", "content": "Nice"},
            {"uuid": "m3", "role_type": "norole", "content": "?"},
        ],
        "facts": ["Mia lives in Oslo", {"uuid": "f", "fact": "Mia skis", "valid_at": "2025-12-01T00:00:00Z"}],
    }
    parsed = list(zep(session))
    assert said(parsed) == [
        ("user", "I moved to Oslo"),
        ("assistant", "Nice"),
        (None, "Mia lives in Oslo"),
        (None, "Mia skis"),
    ]
    assert {draft.user for draft in drafts(parsed)} == {"mia"}
    assert left_out(parsed) == ["unknown role"]
    message = {"uuid": "1", "role": "assistant", "name": "Bot", "content": "x"}
    assert drafts(zep({"thread_id": "t", "messages": [message]}))[0].session == "t"


def test_an_agent_file_gives_blocks_passages_and_what_was_said_out_of_its_wrappings():
    def words(text):
        return [{"type": "text", "text": text}]

    sent = {"function": {"name": "send_message", "arguments": '{"message": "Hello Chad"}'}}
    hi = '{"type": "user_message", "message": "Hi", "time": "…"}'
    sam = {
        "name": "sam",
        "block_ids": ["block-0", "block-9"],
        "messages": [
            {"id": "message-0", "role": "system", "content": words("<base>")},
            {"id": "message-1", "role": "user", "content": hi},
            {"id": "message-2", "role": "assistant", "content": words("thinks"), "tool_calls": [sent]},
            {"id": "message-3", "role": "user", "content": '{"type": "heartbeat"}'},
            {"id": "message-4", "role": "assistant", "content": words("Bye")},
        ],
        "archival_passages": [{"id": "p", "text": "Chad sails", "created_at": "2025-10-31T22:56:56+00:00"}],
    }
    blocks = [{"id": "block-0", "label": "human", "value": "\nFirst name: Chad\n"}]
    file = {"agents": [sam], "blocks": blocks, "created_at": "2025-11-01T00:00:00Z"}
    parsed = list(letta(file))
    assert said(parsed) == [
        (None, "First name: Chad"),
        (None, "Chad sails"),
        ("user", "Hi"),
        ("assistant", "Hello Chad"),
        ("assistant", "Bye"),
    ]
    assert {draft.agent for draft in drafts(parsed)} == {"sam"}
    assert left_out(parsed) == ["no text", "no text"]
    older = {"name": "a", "core_memory": [{"label": "human", "value": "Ann"}]}
    older["messages"] = [{"role": "user", "text": "Yo"}]
    assert said(letta(older)) == [(None, "Ann"), ("user", "Yo")]


def test_entries_of_markdown_are_memories_below_their_heading_at_the_day_of_the_file():
    text = "# Facts\n\n- likes tea\n  with milk\n- [x] done\n\nA paragraph\nof two lines.\n"
    text += "## 工作\n1. 写周报\n- likes tea\n  with milk\n"
    taken = drafts(files.markdown("memory/2026-03-02-notes.md", text, NOW.replace(year=2020)))
    assert [(draft.provenance["heading"], draft.text) for draft in taken] == [
        ("Facts", "likes tea\n  with milk"),
        ("Facts", "done"),
        ("Facts", "A paragraph\nof two lines."),
        ("工作", "写周报"),
        ("工作", "likes tea\n  with milk"),
    ]
    assert {draft.at for draft in taken} == {NOW}
    assert len({draft.key for draft in taken}) == 5
    assert taken[3].found_by == "工作: 写周报"
    again = drafts(files.markdown("memory/2026-03-02-notes.md", "intro\n" + text, NOW))
    assert {draft.key for draft in taken} <= {draft.key for draft in again}, (
        "what stands above changes nothing"
    )
    assert left_out(files.markdown("memory/2026-02-31.md", "x", NOW)) == ["bad time"]


def test_lines_of_a_session_of_openclaw_give_its_messages():
    def line(number, message, **more):
        head = {"type": "message", "id": "1a", "timestamp": "2026-04-08T01:03:43.107Z"}
        return list(files.session_line("s", number, {**head, "message": message, **more}))

    (draft,) = line(3, {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image"}]})
    assert (draft.role, draft.text, draft.session, draft.at.second) == ("user", "Hi", "s", 43)
    assert left_out(line(4, {"role": "assistant", "content": [{"type": "toolCall"}]})) == ["no text"]
    tool = {"role": "toolResult", "content": "42", "timestamp": 1_775_610_223_107}
    assert said(line(5, tool, timestamp=None)) == [("tool", "42")]
    assert line(6, None, type="model_change") == []


def test_an_id_follows_from_the_source_the_agent_and_the_sources_own_id():
    draft = Draft(key=("c", "m"), text="Hi", role="user", session="c", at=NOW)
    here = ImportTarget(source="chatgpt", group="g", now=NOW)
    later = ImportTarget(source="chatgpt", group="other", now=NOW.replace(year=2027))
    (event,), (again,) = here.events(draft), later.events(draft)
    assert (event.event_id, event.payload, event.agent_id) == (again.event_id, again.payload, "assistant")
    others = {
        ImportTarget(source="claude", group="g", now=NOW),
        ImportTarget(source="chatgpt", group="g", now=NOW, agent="mia"),
    }
    assert len({event.event_id, *(target.events(draft)[0].event_id for target in others)}) == 3
    assert (event.payload.origin, event.session_id) == ("import", "c")
    assert ImportTarget(source="x", group="g", now=NOW, user="mia").events(draft)[0].payload.user_id == "mia"


def test_what_cannot_be_stored_says_why_and_long_texts_are_split_or_left_out():
    target = ImportTarget(source="x", group="g", now=NOW)
    assert target.events(Draft(key=("k",), text="a\x00b"))[0].payload.description == "ab"
    assert target.events(Draft(key=("k",), text="a", provenance={"x": "y" * 10_000})).reason == "malformed"
    assert target.events(Draft(key=("k",), text=" \n")).reason == "empty"
    long = Draft(key=("k",), text="一句话。" * 6_000)
    assert len(target.events(long)) == 2
    assert ImportTarget(source="x", group="g", now=NOW, split=False).events(long).reason == "too long"
    secret = target.events(Draft(key=("k",), text="my password is hunter2-Xy7!", role="user", session="s"))
    assert "hunter2" not in secret[0].payload.text


def test_times_are_read_as_services_write_them_and_what_is_no_time_is_refused():
    seconds, texts = (
        (1_700_000_000, 1_700_000_000_000, "1700000000.25"),
        ("2024-02-29", "2024-01-01T00:00:00Z"),
    )
    for value, year in (dict.fromkeys(seconds, 2023) | dict.fromkeys(texts, 2024)).items():
        assert time_of(value).year == year
        assert time_of(value).tzinfo is not None
    for value in ("soon", True, float("nan"), 1e300, [], "2024-13-01"):
        with pytest.raises(BadTimeError):
            time_of(value)


@given(JSON)
def test_whatever_stands_there_no_parser_fails(value):
    parsers = (chatgpt, claude, mem0, langmem, zep, letta)
    for item in files.session_line("s", 1, {"type": "message", "message": value}):
        assert isinstance(item, Draft | LeftOut)
    ids = {"id": "i", "uuid": "u", "session_id": "s", "namespace": ["n"], "key": "k", "memory": value}
    lists = ("mapping", "chat_messages", "messages", "agents", "core_memory", "value")
    holders = [ids | {name: value} for name in lists]
    target = ImportTarget(source="x", group="g", now=NOW)
    for parse in parsers:
        for item in (one for whole in (value, *holders) for one in parse(whole)):
            assert isinstance(item, LeftOut) or isinstance(target.events(item), list | LeftOut)
