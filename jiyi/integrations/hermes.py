"""Hermes Agent on Jiyi: a memory provider (``jiyi connect hermes``, ``docs/integrations.md``).

``connect`` writes this module, with what it imports of Jiyi in it, into Hermes' folder of plug-ins: nothing
has to be installed where Hermes runs. Beside it is ``jiyi.json`` with the service's address, the key, and
the agent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.memory_provider import MemoryProvider

from jiyi.integrations.plug_ins import MAX_CHARS, PlugInMemory


def _tool(name: str, description: str, argument: str, about: str) -> Mapping[str, Any]:
    properties = {argument: {"type": "string", "description": about}}
    parameters = {"type": "object", "properties": properties, "required": [argument]}
    return {"name": name, "description": description, "parameters": parameters}


TOOLS = [
    _tool(
        "jiyi_recall",
        "Search long-term memory for what was said or learned in earlier conversations.",
        "query",
        "What to look for, as a question or keywords.",
    ),
    _tool(
        "jiyi_remember",
        "Keep one fact in long-term memory. What is said in the conversation is remembered without it.",
        "text",
        "The fact, in one sentence that can be understood on its own.",
    ),
]


class JiyiMemoryProvider(MemoryProvider):
    """What was said is published in the background, again while the service is away; recall may fail."""

    def __init__(self) -> None:
        self.file = Path(__file__).with_name("jiyi.json")
        self._session, self._user, self._writes = "", "", True
        self.memory = PlugInMemory(self._config)

    @property
    def name(self) -> str:
        """What Hermes calls it."""
        return "jiyi"

    def is_available(self) -> bool:
        """Whether ``jiyi connect hermes`` was run."""
        try:
            return {"url", "key", "agent"} <= self._config().keys()
        except (OSError, ValueError):
            return False

    def unavailable_reason(self) -> str:
        """The sentence that Hermes shows."""
        return "run `jiyi connect hermes` with an API key in JIYI_KEY"

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """A session begins. Sub-agents and scheduled prompts are not recorded: nobody said that."""
        self._session, self._user = session_id, str(kwargs.get("user_id") or "")
        self._writes = kwargs.get("agent_context", "primary") == "primary"
        self.memory.begin()

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        """The conversation goes on under another id, or a new one begins."""
        self._session = new_session_id

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What belongs before the answer to ``query``; empty if nothing does, or not within a second."""
        return self.memory.recall_or_nothing(query, self._user)

    def sync_turn(
        self, user_content: str, assistant_content: str, *, session_id: str = "", messages: Any = None
    ) -> None:
        """Record what was said, in the background."""
        for role, text in (("user", user_content), ("assistant", assistant_content)):
            if self._writes and text and text.strip():
                payload = {"role": role, "text": text.strip()[:MAX_CHARS]}
                session = session_id or self._session
                self.memory.enqueue("turn.recorded", payload, user_id=self._user, session_id=session)

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:
        """The agent reflects on a conversation that is over."""
        if self._writes and self._session and messages:
            self.memory.enqueue("session.ended", {}, user_id=self._user, session_id=self._session)

    def get_tool_schemas(self) -> list[Mapping[str, Any]]:
        """As functions of OpenAI."""
        return TOOLS

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """The result of a call, or ``error`` with a sentence, as JSON."""
        memory = self.memory
        try:
            if tool_name == "jiyi_recall":
                recalled = memory.recall(str(args["query"]), self._user)
                return json.dumps({"memories": recalled}, ensure_ascii=False)
            if tool_name == "jiyi_remember":
                payload = {"description": str(args["text"])[:MAX_CHARS], "origin": "assistant"}
                memory.publish([memory.event("memory.observed", payload, user_id=self._user)])
                return json.dumps({"remembered": True})
        except KeyError as error:
            return json.dumps({"error": f"{error} is missing"})
        except (OSError, ValueError) as error:
            return json.dumps({"error": f"the memory service did not answer: {error}"})
        return json.dumps({"error": f"there is no tool {tool_name}: jiyi_recall, jiyi_remember"})

    def shutdown(self) -> None:
        """Publish what waits, for a few seconds at most."""
        self.memory.end()

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        return config


def register(context: Any) -> None:
    """What Hermes calls."""
    context.register_memory_provider(JiyiMemoryProvider())
