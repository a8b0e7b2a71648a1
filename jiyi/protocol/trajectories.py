"""Steps of conversations as they travel, and what the trajectories that are made of them can be."""

from __future__ import annotations

from typing import Literal

from jiyi.chat.secrets import masked

RequestType = Literal["tool_task", "question", "request", "chat"]
#: How it ended: as asked, in part, not at all, or without an answer.
Completion = Literal["success", "partial", "failed", "abandoned"]
Satisfaction = Literal["positive", "negative", "neutral"]


#: ``skill``: the text of an enabled skill, whose id is ``tool``, was in the prompt.
StepType = Literal["user_request", "retrieval", "skill", "tool_call", "tool_result", "generation"]

#: Characters that are kept of what a step got, and of what it gave.
SUMMARY_CHARS = 200
CUT = "…"


def summary(text: str) -> str:
    """The beginning of a text in one line, with its secrets masked; at most ``SUMMARY_CHARS`` characters."""
    line = " ".join(masked(text).split())
    return line if len(line) <= SUMMARY_CHARS else line[: SUMMARY_CHARS - len(CUT)] + CUT
