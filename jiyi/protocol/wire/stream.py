"""The live stream: what a piece of news looks like, wherever it is read (``docs/api.md``)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

#: Of a group's stream in Valkey; the group's name follows.
STREAM_KEY = "jiyi:stream:"


class News(BaseModel):
    """Something has changed: ids, names of agents, counts and durations, never the text of a memory."""

    id: str = Field(description="Where it stands in the stream; give it as `after` to go on from there.")
    kind: str = Field(description="`node.stored`, `node.retrievable`, `retrieval.answered` …")
    data: dict[str, Any]
