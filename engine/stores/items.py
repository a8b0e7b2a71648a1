"""What an update stores: the text that an item is found by, and what is noted of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.stores.query import key_content
from jiyi.protocol.stores.items import AttachmentNote, Snapshot
from jiyi.protocol.wire.json_values import JsonObject
from jiyi.stores.config.types import Fidelity
from jiyi.stores.snapshots import PREVIEW_CHARS

#: A summary with its labels of fewer characters says nothing.
LEAST_SUMMARY = 20


def summary_of(inputs: str, output: str, max_length: int, fidelity: Fidelity = "jiyi") -> str:
    """``Input: …`` and ``Output: …``, what counts of each."""
    counted = [key_content(text, max_length, fidelity) for text in (inputs, output)]
    return f"Input: {counted[0]}\nOutput: {counted[1]}"


def without_labels(summary: str) -> str:
    """What a summary says, for what compares texts: its labels are in every one."""
    first, _, second = summary.partition("\nOutput: ")
    if not first.startswith("Input:"):
        return summary
    return "\n".join(part for part in (first.removeprefix("Input:").strip(), second.strip()) if part)


def said(inputs_text: str, given: Snapshot | None, output: Snapshot | None) -> str:
    """What a blackboard notes: the output, else the input, else the text of the inputs."""
    texts = (output.text if output else "", given.text if given else "", inputs_text)
    return next((text.strip() for text in texts if text.strip()), "")


def metadata_of(role: str, inputs_text: str, attached: Sequence[AttachmentNote], content_length: int | None = None) -> JsonObject:
    """Who said it, the beginning of what went in, what was attached."""
    noted: dict[str, Any] = {"agent_role": role, "input_preview": inputs_text[:PREVIEW_CHARS]}
    if content_length is not None:
        noted["content_length"] = content_length
    noted["attachments"] = [one.model_dump() for one in attached]
    return noted
