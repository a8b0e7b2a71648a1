"""Snapshots and attachments: bytes are taken out once, and come back equal; the original's files."""

from __future__ import annotations

import base64
import hashlib
import os
from io import BytesIO
from typing import Any

import pytest

from engine.stores import saved_files as formats
from engine.stores.items import metadata_of, noted_text
from engine.stores.limits import RefusedDocument
from jiyi.errors import InvalidRequest
from jiyi.protocol.stores import MAX_TEXT, MemoryItem, Snapshot, SnapshotBlock
from jiyi.stores.snapshots import MAX_ATTACHMENT, detach, held_in, reattach, snapshot_of

BYTES = os.urandom(3_000)
TEXT = base64.b64encode(BYTES).decode("ascii")


def read(text: str) -> list[Any]:
    """The items of a file, as its parser gives them."""
    return list(formats.parse_items(BytesIO(text.encode())))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TEXT}},
        {"type": "file", "attachment": {"name": "a.pdf", "mime_type": "image/png", "base64": TEXT}},
        {"type": "audio", "data": TEXT, "mime_type": "image/png", "name": "b.png"},
    ],
)
def test_bytes_come_back_equal(block: dict) -> None:
    snapshot = Snapshot(text="see", blocks=[SnapshotBlock(role="user", block=block)])
    [bare], [attached] = detach(snapshot)
    assert bare is not None
    assert attached.data == BYTES
    note = attached.note
    assert (note.attachment_id, note.size) == (hashlib.sha256(BYTES).hexdigest(), len(BYTES))
    assert (note.role, note.mime_type) == ("user", "image/png")
    assert TEXT not in bare.model_dump_json()
    assert list(held_in([one.block for one in bare.blocks])) == [note.attachment_id]
    assert reattach(bare, {note.attachment_id: BYTES}.get) == snapshot


def test_a_block_that_is_nested_too_deeply_or_too_large_is_refused_and_no_base64_stays_a_text() -> None:
    nested: dict = {}
    for _ in range(30):
        nested = {"inner": nested, "s": "x"}
    large = {"data": "A" * (MAX_ATTACHMENT * 4 // 3 + 100), "mime_type": "image/png"}
    for block, why in ((nested, "nested"), (large, "more than 5,242,880 bytes")):
        with pytest.raises(InvalidRequest, match=why):
            detach(Snapshot(blocks=[SnapshotBlock(role="user", block=block)]))
    block = {"data": "not base64!", "mime_type": "text/plain"}
    snapshot = Snapshot(blocks=[SnapshotBlock(role="user", block=block)])
    assert detach(snapshot, None) == ([snapshot, None], [])


def test_several_messages_are_joined_with_their_roles() -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image", "data": TEXT, "mime_type": "image/png"}]
    found = snapshot_of([{"role": "user", "content": parts}, {"role": "assistant", "content": "seen"}])
    assert found.text == "(user) look\n\n(assistant) seen"
    assert [(one.role, one.block["type"]) for one in found.blocks] == [("user", "text"), ("user", "image")]
    for said, text in (("plain", "plain"), ("half \ud800 a pair\x00", "half  a pair")):
        assert snapshot_of(said).text == text
    for said, text in (("alone", "alone"), ("\udc00" + "长" * (MAX_TEXT + 1), "长" * MAX_TEXT)):
        assert snapshot_of([{"role": "user", "content": said}]).text == text


def test_output_else_input_else_text() -> None:
    read, written, blank = (Snapshot(text=text) for text in ("in", "out", " "))
    given = ("text", read, written), ("text", read, blank), ("text", None, None), (" ", None, None)
    assert [noted_text(*one) for one in given] == ["out", "in", "text", ""]
    found = metadata_of("writer", "x" * 300, [], 12)
    said = {"input_preview": "x" * 200, "content_length": 12}
    assert found == {"agent_role": "writer", "attachments": [], **said}


def test_items_are_written_and_read_as_the_original_does() -> None:
    said = {"content_summary": "Input: x\nOutput: y", "metadata": {"agent_role": "w"}, "embedding": [0.5]}
    item = MemoryItem(id="a", timestamp=1_770_000_000.5, **said)
    text = "".join(formats.written_items([item, item]))
    without_vector = item.model_dump(exclude={"embedding"})
    assert read(text) == read(f'{{"config": {{}}, "contents": {text}}}') == [without_vector] * 2
    assert read('{"contents": []}') == read("") == []


@pytest.mark.parametrize("text", ["{", '"x"', '{"a": 1}', "[1]", '[{"id": "a"}]', "[" * 100_000])
def test_a_corrupt_file_is_told(text: str) -> None:
    with pytest.raises(RefusedDocument, match="malformed"):
        read(text)
