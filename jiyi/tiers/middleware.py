"""What publishes the outputs of a workflow's nodes: quarantine and working memory are fed from here (CN-16, CN-17).

    memory = MemoryMiddleware(client)
    output = memory.after_node("proponent", output, group_id="council", session_id=session)
    memory.close()

It never disturbs the workflow (K-18, CN-28): outputs are put into a queue and published by a thread of its own, which tries
again while the broker is away. What cannot be published is counted and logged. The original aborts the node.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from pydantic import ValidationError
from pydantic_core import to_json

from jiyi.errors import InvalidEvent, problems_of
from jiyi.protocol.events import MAX_OUTPUT_CHARS, Execution, NodeExecuted, small_enough, unstorable
from jiyi.text.words import storable

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Outputs that wait while the broker is away; of more, the newest are lost, counted and logged.
MAX_WAITING = 10_000
#: Outputs that are published at once.
BATCH = 100
#: Seconds between tries: doubled up to the second.
FIRST_PAUSE, LAST_PAUSE = 0.2, 10.0
#: Seconds that ``close`` waits for what is still in the queue.
CLOSE_SECONDS = 5.0
#: Characters of what says why metadata are missing.
MAX_REASON_CHARS = 200
#: Names that a confidence goes by in an output's metadata.
_CONFIDENCE = ("confidence", "confidence_score")


class Publisher(Protocol):
    """Whoever publishes events; :class:`jiyi.Client` is one."""

    def observe_many(self, observations: Iterable[dict[str, Any]], /) -> Sequence[object]:
        """Publish all, or raise and have published none or some: they are published again under the same ids."""
        ...


@dataclass(slots=True)
class Counts:
    """What became of the outputs; ``skipped`` ones had no text (CN-17)."""

    published: int = 0
    skipped: int = 0
    refused: int = 0
    lost: int = 0


class MemoryMiddleware:
    """After-node middleware. Thread-safe.

    Args:
        publisher: who publishes.
        on_failure: called with a sentence for each output that is refused or lost.
    """

    def __init__(self, publisher: Publisher, *, on_failure: Callable[[str], object] | None = None) -> None:
        self.counts = Counts()
        self._publisher, self._on_failure = publisher, on_failure
        self._waiting: deque[dict[str, Any]] = deque()
        self._changed = threading.Condition()
        self._in_hand = 0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def after_node(
        self, node_id: str, output: T, *, group_id: str, session_id: str | None = None, agent_id: str | None = None, **fields: Any
    ) -> T:
        """Take note of a node's output, and return it as it is. Never raises, never waits.

        Args:
            node_id: which node.
            output: a text, or a mapping with a text ``content`` and perhaps ``metadata``; others are skipped.
            group_id: the group whose memory it is.
            session_id: the run of the workflow.
            agent_id: who spoke; the metadata's ``agent_id``, else the node, unless given.
            fields: other fields of :class:`jiyi.protocol.events.Execution` (``node_type``, ``confidence``, ``flags``, …).
        """
        try:
            event = event_of(node_id, output, group_id=group_id, session_id=session_id, agent_id=agent_id, **fields)
        except InvalidEvent as error:
            self._fail("refused", 1, f"the output of node {node_id!r} is not remembered: {error}")
            return output
        except Exception as error:
            log.exception("the output of a node is not remembered")
            self._fail("refused", 1, f"the output of node {node_id!r} is not remembered: {type(error).__name__}")
            return output
        if event is None:
            self._count("skipped", 1)
        else:
            self._put(event)
        return output

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until everything is published; False if it is not, after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._in_hand, seconds)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Publish what is still waiting, and end; what is not published by then is lost, counted and logged."""
        self.flush(seconds)
        with self._changed:
            self._closed.set()
            left = len(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        if left:
            self._fail("lost", left, f"{left} outputs were not published before the end")

    def _put(self, event: dict[str, Any]) -> None:
        with self._changed:
            room = not self._closed.is_set() and len(self._waiting) < MAX_WAITING
            if room:
                self._waiting.append(event)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="jiyi-memory", daemon=True)
                    self._thread.start()
                self._changed.notify_all()
        if not room:
            self._fail("lost", 1, "an output is lost: " + ("closed" if self._closed.is_set() else f"{MAX_WAITING:,} wait already"))

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed.is_set())
                if self._closed.is_set() and not self._waiting:
                    return
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                self._in_hand = len(batch)
            left = self._publish(batch)
            with self._changed:
                self._waiting.extendleft(reversed(left))
                self._in_hand = 0
                self._changed.notify_all()
                if self._closed.is_set():
                    return
            pause = min(2 * pause, LAST_PAUSE) if left else FIRST_PAUSE
            if left:
                self._closed.wait(pause)

    def _publish(self, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that have to be tried again."""
        try:
            self._publisher.observe_many(batch)
        except InvalidEvent as error:
            if len(batch) > 1:  # one of them is wrong: each by itself
                return [event for one in batch for event in self._publish([one])]
            self._fail("refused", 1, f"an output is not remembered: {error}")
            return []
        except Exception as error:  # noqa: BLE001 – whatever it is, the caller goes on
            log.warning("%d outputs wait to be published: %s", len(batch), error)
            return batch
        self._count("published", len(batch))
        return []

    def _count(self, what: str, count: int) -> None:
        with self._changed:
            setattr(self.counts, what, getattr(self.counts, what) + count)

    def _fail(self, what: str, count: int, sentence: str) -> None:
        self._count(what, count)
        log.warning("%s", sentence)
        if self._on_failure is not None:
            try:
                self._on_failure(sentence)
            except Exception:
                log.exception("a listener failed")


def event_of(
    node_id: str, output: Any, *, group_id: str, session_id: str | None = None, agent_id: str | None = None, **fields: Any
) -> dict[str, Any] | None:
    """The ``node.executed`` event of an output; None if it has no text (CN-17).

    The node's id is in the event itself: the original adds it to the metadata after they are written (CN-18). A text is
    not lost for what comes with it: metadata that cannot be kept are left out, and it says so.

    Raises:
        InvalidEvent: with a sentence per wrong field.
    """
    content = output.get("content") if isinstance(output, Mapping) else output
    text = storable(content) if isinstance(content, str) else ""
    if not text.strip():
        return None
    unknown = fields.keys() - Execution.model_fields.keys()
    if unknown:
        raise InvalidEvent([f"{name}: no such field" for name in sorted(unknown)])
    metadata = dict(found) if isinstance(output, Mapping) and isinstance(found := output.get("metadata"), Mapping) else {}
    metadata |= fields.pop("metadata", {})
    payload = {"confidence": _confidence(metadata), **fields, "node_id": node_id, "output": text[:MAX_OUTPUT_CHARS]}
    if metadata.pop("verify_pending", False):
        payload["flags"] = [*fields.get("flags", ()), "verify_pending"]
    speaker = agent_id or metadata.pop("agent_id", None) or fields.get("node_name") or node_id
    payload["metadata"] = _kept(metadata | ({"truncated_from": len(text)} if len(text) > MAX_OUTPUT_CHARS else {}))
    try:
        event = NodeExecuted.model_validate({"group_id": group_id, "agent_id": speaker, "session_id": session_id, "payload": payload})
    except ValidationError as error:
        raise InvalidEvent(problems_of(error)) from None
    if problems := list(unstorable(event.model_dump())):
        raise InvalidEvent(problems)
    return event.model_dump(mode="json", exclude_none=True)


def _confidence(metadata: dict[str, Any]) -> float | None:
    """Taken out of the metadata if it is one; 85 for 85 % stays there, and the output counts as unscored (K-14)."""
    for name in _CONFIDENCE:
        value = metadata.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            del metadata[name]
            return float(value)
    return None


def _kept(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        kept = small_enough(metadata)
        to_json(kept)
    except (ValueError, TypeError, RecursionError) as error:
        return {"left_out": f"metadata: {error}"[:MAX_REASON_CHARS]}
    return {"left_out": "metadata: unstorable text"} if any(unstorable(kept)) else kept
