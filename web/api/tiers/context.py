"""A prompt with what the group knows."""

from __future__ import annotations

from jiyi.protocol.tiers.context import ContextBody
from models.tiers import questions
from web.api.registry import expose

expose(
    questions.build_context,
    "POST",
    "/memory/context",
    id="build_context",
    tag="tiers",
    body=ContextBody,
    errors=(504,),
    flat=("proposal", "system", "persona", "query", "budget", "agent_id", "session_id"),
)
