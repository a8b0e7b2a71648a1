"""Messages as snapshots, and their attachments: bytes are kept once, and come back as they were."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jiyi.errors import InvalidRequest
from jiyi.protocol.stores import MAX_TEXT, Attachment, Snapshot, SnapshotBlock
from jiyi.text.words import storable

#: Bytes of one attachment, and of all attachments of a store.
MAX_ATTACHMENT, MAX_ATTACHMENTS = 5 * 1024 * 1024, 100 * 1024 * 1024
#: Characters of an item's preview of what went in.
PREVIEW_CHARS = 200
#: Fields that hold base64 in the blocks of common formats, beside a media type.
_BASE64_FIELDS = ("data", "base64", "b64_json")
_TYPE_FIELDS = ("mime_type", "media_type", "mimeType")
_NAME_FIELDS = ("name", "filename", "file_name")
#: In place of the bytes: their SHA-256, and what stood before the base64.
HELD = "jiyi:attachment"
_DATA_URI = re.compile(r"data:([\w.+/-]{1,100})(?:;[\w=.-]{1,60}){0,3};base64,")
#: How deep a block may be nested.
MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Attached:
    """An attachment taken out of a block."""

    note: Attachment
    data: bytes


def snapshot_of(messages: str | Sequence[Mapping[str, Any]], role: str = "user") -> Snapshot:
    """A text, or messages ``{role, content}`` whose content is a text or a list of blocks.

    Several messages become ``(role) text`` with blank lines between them. NUL and halves of surrogate pairs
    are left out, and of longer texts the beginning is taken.
    """
    if isinstance(messages, str):
        return Snapshot(text=storable(messages)[:MAX_TEXT])
    texts, blocks = [], []
    for message in messages:
        whose = str(message.get("role", role))
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        texts.append(
            (whose, "\n".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str)))
        )
        if not isinstance(content, str):
            blocks += [SnapshotBlock(role=whose, block=dict(part)) for part in parts]
    text = texts[0][1] if len(texts) == 1 else "\n\n".join(f"({whose}) {content}" for whose, content in texts)
    return Snapshot(text=storable(text)[:MAX_TEXT], blocks=blocks)


def detach(*snapshots: Snapshot | None) -> tuple[list[Snapshot | None], list[Attached]]:
    """The snapshots without the bytes in their blocks, and these.

    Raises:
        InvalidRequest: one is larger than ``MAX_ATTACHMENT``, or a block is nested too deeply.
    """
    attachments: list[Attached] = []

    def bare(one: SnapshotBlock) -> SnapshotBlock:
        return SnapshotBlock(role=one.role, block=_without_bytes(one.block, one.role, attachments, {}, 0))

    without = [
        None if shot is None else Snapshot(text=shot.text, blocks=[bare(one) for one in shot.blocks])
        for shot in snapshots
    ]
    return without, attachments


def reattach(snapshot: Snapshot, read: Callable[[str], bytes | None]) -> Snapshot:
    """The snapshot with its bytes; ``read`` gives those of a SHA-256, None if they are gone."""
    return Snapshot(
        text=snapshot.text,
        blocks=[SnapshotBlock(role=one.role, block=_with_bytes(one.block, read)) for one in snapshot.blocks],
    )


def held_in(value: Any) -> Iterator[str]:
    """SHA-256 of every attachment that a stored block stands without."""
    if isinstance(value, dict):
        if isinstance(value.get(HELD), str):
            yield value[HELD]
        for one in value.values():
            yield from held_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from held_in(one)


def _without_bytes(
    value: Any, role: str, attachments: list[Attached], beside: Mapping[str, Any], depth: int, key: str = ""
) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidRequest([f"blocks: nested more than {MAX_DEPTH} levels deep"])
    if isinstance(value, dict):
        return {
            name: _without_bytes(one, role, attachments, {**beside, **value}, depth + 1, name)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_without_bytes(one, role, attachments, beside, depth + 1, key) for one in value]
    if not isinstance(value, str):
        return value
    uri = _DATA_URI.match(value)
    kind = uri[1] if uri is not None else _first(beside, _TYPE_FIELDS)
    if uri is None and (key not in _BASE64_FIELDS or not kind):
        return value
    start = uri.end() if uri is not None else 0
    if (len(value) - start) * 3 // 4 > MAX_ATTACHMENT + 3:
        raise InvalidRequest([f"blocks: an attachment has more than {MAX_ATTACHMENT:,} bytes"])
    try:
        data = base64.b64decode(value[start:], validate=True)
    except (binascii.Error, ValueError):
        return value  # no base64 after all: it stays a text
    sha256 = hashlib.sha256(data).hexdigest()
    note = Attachment(
        role=role,
        attachment_id=sha256,
        mime_type=kind,
        name=_first(beside, _NAME_FIELDS)[:200],
        size=len(data),
    )
    attachments.append(Attached(note, data))
    return {HELD: sha256, "before": value[:start]}


def _with_bytes(value: Any, read: Callable[[str], bytes | None]) -> Any:
    if isinstance(value, list):
        return [_with_bytes(one, read) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get(HELD), str):
        data = read(value[HELD])
        return value if data is None else value.get("before", "") + base64.b64encode(data).decode("ascii")
    return {name: _with_bytes(one, read) for name, one in value.items()}


def _first(beside: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((beside[name] for name in names if isinstance(beside.get(name), str)), "")
