"""Hermes Agent on Jiyi: a memory provider (``jiyi connect hermes``, ``docs/integrations.md``).

``connect`` writes this module, with what it imports of Jiyi in it, into Hermes' folder of plug-ins: nothing has to be installed where
Hermes runs. Beside it is ``jiyi.json`` with the service's address, the key, and whose memory it is.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from agent.memory_provider import MemoryProvider

from jiyi.cli.hook import post

log = logging.getLogger(__name__)

#: Seconds that recall may take: later an answer goes on without. And that a publication may, which nobody waits for.
RECALL_SECONDS, TELL_SECONDS = 1.0, 10.0
#: Events that wait while the service is away; of more, the oldest go. In one publication are at most so many.
MOST_WAITING, BATCH = 1_000, 50
#: Seconds between two tries, at most; and that Hermes waits at its end for what is not published yet.
LONGEST_PAUSE, END_SECONDS = 30.0, 3.0
#: Statuses of what is wrong in itself: to send it again is of no use. Others, such as those of a key that expired, may pass.
REFUSED = frozenset({400, 409, 413, 422})
#: Characters of a question, and of what was said.
MAX_QUERY, MAX_CHARS = 4_000, 20_000
TOOLS: list[dict[str, Any]] = [
    {
        "name": "jiyi_recall",
        "description": "Search long-term memory for what was said or learned in earlier conversations.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for, as a question or keywords."}},
            "required": ["query"],
        },
    },
    {
        "name": "jiyi_remember",
        "description": "Keep one fact in long-term memory. What is said in the conversation is remembered without it.",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "The fact, in one sentence that can be understood by itself."}},
            "required": ["text"],
        },
    },
]


class JiyiMemoryProvider(MemoryProvider):
    """What was said is published in the background, and tried again while the service is away; recall that fails is silence."""

    def __init__(self) -> None:
        self._file = Path(__file__).with_name("jiyi.json")
        self._session, self._user, self._writes = "", "", True
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MOST_WAITING)
        self._there, self._ending = threading.Condition(), threading.Event()
        self._thread: threading.Thread | None = None

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
        if self._ending.is_set():  # Hermes begins again with a provider that it had shut down
            self._ending.clear()
            self._thread = None

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        """The conversation goes on under another id, or a new one begins."""
        self._session = new_session_id

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What belongs before the answer to ``query``; empty if nothing does, or if the service does not answer within a second."""
        try:
            return self._recall(query)
        except (OSError, ValueError, KeyError) as error:
            log.warning("nothing is recalled: %s", error)
            return ""

    def sync_turn(self, user_content: str, assistant_content: str, *, session_id: str = "", messages: Any = None) -> None:
        """Record what was said, in the background."""
        for role, text in (("user", user_content), ("assistant", assistant_content)):
            if self._writes and text and text.strip():
                self._tell("turn.recorded", {"role": role, "text": text.strip()[:MAX_CHARS]}, session_id or self._session)

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:
        """The agent reflects on a conversation that is over."""
        if self._writes and self._session and messages:
            self._tell("session.ended", {}, self._session)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """As functions of OpenAI."""
        return TOOLS

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """The result of a call, or ``error`` with a sentence, as JSON."""
        try:
            if tool_name == "jiyi_recall":
                return json.dumps({"memories": self._recall(str(args["query"]))}, ensure_ascii=False)
            if tool_name == "jiyi_remember":
                payload = {"description": str(args["text"])[:MAX_CHARS], "origin": "assistant"}
                self._publish([self._event("memory.observed", payload)])
                return json.dumps({"remembered": True})
        except KeyError as error:
            return json.dumps({"error": f"{error} is missing"})
        except (OSError, ValueError) as error:
            return json.dumps({"error": f"the memory service did not answer: {error}"})
        return json.dumps({"error": f"there is no tool {tool_name}: jiyi_recall, jiyi_remember"})

    def shutdown(self) -> None:
        """Publish what waits, for a few seconds at most."""
        self._ending.set()
        with self._there:
            self._there.notify_all()
        if self._thread is not None:
            self._thread.join(END_SECONDS)
        if self._waiting:
            log.warning("%d events were not published: the memory service did not take them in time", len(self._waiting))

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        return config

    def _recall(self, query: str) -> str:
        if not query.strip():
            return ""
        config = self._config()
        asked = {"agent_id": config["agent"], "query": query[:MAX_QUERY], **self._whose()}
        return str(post({**config, "seconds": RECALL_SECONDS}, "/context", asked)["text"])

    def _whose(self) -> dict[str, str]:
        return {"user_id": self._user} if self._user else {}

    def _event(self, kind: str, payload: Mapping[str, Any], session_id: str | None = None) -> dict[str, Any]:
        return {
            "type": kind,
            "event_id": str(uuid4()),
            "occurred_at": datetime.now(UTC).isoformat(),
            "agent_id": self._config()["agent"],
            "payload": {**payload, **self._whose()},
            **({} if session_id is None else {"session_id": session_id}),
        }

    def _tell(self, kind: str, payload: Mapping[str, Any], session_id: str) -> None:
        try:
            event = self._event(kind, payload, session_id)
        except (OSError, ValueError, KeyError) as error:
            log.warning("what was said is not remembered: %s", error)
            return
        with self._there:
            if len(self._waiting) == MOST_WAITING:
                log.warning("the service has been away for long: what was said %d turns ago is not remembered", MOST_WAITING)
            self._waiting.append(event)
            if self._thread is None:
                self._thread = threading.Thread(target=self._publish_all, name="jiyi", daemon=True)
                self._thread.start()
            self._there.notify_all()

    def _publish_all(self) -> None:
        pause, size = 1.0, BATCH
        while True:
            with self._there:
                self._there.wait_for(lambda: self._waiting or self._ending.is_set())
                batch = [self._waiting[place] for place in range(min(size, len(self._waiting)))]
            if not batch:
                return
            try:
                self._publish(batch)
            except (OSError, ValueError, KeyError) as error:
                if not (error.args and error.args[0] in REFUSED):
                    log.warning("%d events wait: %s", len(self._waiting), error)
                    if self._ending.wait(pause):
                        return
                    pause = min(2 * pause, LONGEST_PAUSE)
                    continue
                if len(batch) > 1:  # events are stored together or not at all: one by one, the wrong one shows
                    size = 1
                    continue
                log.warning("the memory service refuses an event, which is left out: %s", error)
                size = BATCH
            pause = 1.0
            with self._there:
                for event in batch:
                    if self._waiting and self._waiting[0] is event:
                        self._waiting.popleft()

    def _publish(self, events: list[dict[str, Any]]) -> None:
        """Each has an id: what is sent a second time is stored once."""
        post({**self._config(), "seconds": TELL_SECONDS}, "/events", {"events": events})


def register(context: Any) -> None:
    """What Hermes calls."""
    context.register_memory_provider(JiyiMemoryProvider())
