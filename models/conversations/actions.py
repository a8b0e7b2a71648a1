"""What can be done with conversations: the commands of the product that this part follows, under its names (ZC-97…ZC-127)."""

from __future__ import annotations

from jiyi.protocol.conversations.injection import ContextRequest, InjectedContext, InjectRequest
from jiyi.protocol.queries import QUEUE
from models.db.actions import by_worker

build_context = by_worker(
    "memory_build_context",
    ContextRequest,
    InjectedContext,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Build what belongs before an answer.

    The agent's preferences, knowledge, experiences and turns of earlier conversations that matter for the query, within a
    budget of tokens. Empty if nothing was found. Needs a worker that answers.
    """,
)
inject_prompt = by_worker(
    "viking_inject_prompt",
    InjectRequest,
    InjectedContext,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Put what is remembered into a prompt.

    The prompt with the context that memory_build_context builds; unchanged if nothing was found. Needs a worker that answers.
    """,
)
