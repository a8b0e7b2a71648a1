"""Stages of a chat: steps recorded as ``turn.step`` events, the hint at a candidate, and appointments."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from uuid import UUID, uuid5

from jiyi.chat.chain import Exchange, Stage
from jiyi.chat.recent import Recent
from jiyi.client.calls import checked
from jiyi.protocol.appointments import MAX_TEXT_CHARS, AskedSchedules, AskSchedules
from jiyi.protocol.artifacts import ArtifactKind
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.protocol.conversations import ChatMessage, Message
from jiyi.protocol.recall import InjectedContext
from jiyi.protocol.trajectories import StepType, summary
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompting import PREFACE, quoted, quoted_to_tokens
from jiyi.text.words import Language, language_of, storable
from jiyi.zones import ZoneOf, zone_of_user

#: Namespace of the ids of steps.
STEPS = UUID("c2f7a0de-88f1-5f63-9a3c-0b6f7de0a6b1")
#: Sessions of which is kept how far their steps are.
SESSIONS = 1_000
#: Characters of a text that are looked at.
READ_CHARS = 2_000
MAX_TOOL_CHARS = 200


@dataclass(slots=True)
class _Session:
    """How far a session is."""

    index: int = 0
    #: By ``time.monotonic``: when the model was asked.
    asked_at: float | None = None
    #: Hashes of what was recorded of its messages, so that a repetition is no new step.
    hashes: list[int] = field(default_factory=list)
    compacted: bool = False


class StepRecorder:
    """Makes events of steps, with ids by what happened and its number. Thread-safe."""

    def __init__(self, group_id: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._group_id, self._clock = group_id, clock
        self._sessions: Recent[tuple[str, str], _Session] = Recent(SESSIONS)
        self._lock = Lock()

    def record_request(
        self, agent_id: str, session_id: str, user_input: str, retrieved: str = ""
    ) -> list[JsonObject]:
        """The user asked, and ``retrieved`` says what was found for it: the steps before an answer."""
        with self._lock:
            session = self._session(agent_id, session_id)
            session.asked_at = self._clock()
            session.hashes.append(_hash(("user_request", None, user_input, "", None)))
            events = [self._event(agent_id, session_id, session, "user_request", input=user_input)]
            if retrieved:
                fields = {"input": user_input, "output": retrieved}
                events.append(self._event(agent_id, session_id, session, "retrieval", **fields))
            return events

    def record_answer(
        self, agent_id: str, session_id: str, messages: Sequence[Message], chat: Sequence[ChatMessage]
    ) -> list[JsonObject]:
        """Requests, calls of tools, results and answers that were not recorded before.

        Takes the new messages or the whole conversation so far.
        """
        parts = _parts_of(messages, chat)
        with self._lock:
            session = self._session(agent_id, session_id)
            hashes = list(map(_hash, parts))
            new = len(parts) - _count_recorded(session.hashes, hashes)
            whole = hashes[: len(session.hashes)] == session.hashes
            session.hashes = hashes if whole else [*session.hashes, *hashes[len(hashes) - new :]]
            events = []
            for place, (step_type, tool, input_text, output_text, ok) in enumerate(
                parts[len(parts) - new :], 1
            ):
                ms = self._ms(session) if step_type == "generation" and place == new else None
                fields = {"tool": tool, "input": input_text, "output": output_text, "ok": ok, "ms": ms}
                events.append(self._event(agent_id, session_id, session, step_type, **fields))
            return events

    def step(self, agent_id: str, session_id: str, step_type: StepType, **fields: Any) -> JsonObject:
        """One step of the program's own: ``tool``, ``input``, ``output``, ``ok``, ``ms``, ``tokens``."""
        with self._lock:
            return self._event(agent_id, session_id, self._session(agent_id, session_id), step_type, **fields)

    def compacted(self, agent_id: str, session_id: str) -> None:
        """The conversation is compacted: the next step says so, what came before is compressed."""
        with self._lock:
            session = self._session(agent_id, session_id)
            session.compacted = session.index > 0

    def _session(self, agent_id: str, session_id: str) -> _Session:
        session = self._sessions.get((agent_id, session_id)) or _Session()
        self._sessions[agent_id, session_id] = session
        return session

    def _ms(self, session: _Session) -> int | None:
        if session.asked_at is None:
            return None
        took, session.asked_at = self._clock() - session.asked_at, None
        return round(1_000 * took)

    def _event(
        self, agent_id: str, session_id: str, session: _Session, step_type: StepType, **fields: Any
    ) -> JsonObject:
        payload = {name: value for name, value in fields.items() if value is not None}
        for name in ("input", "output"):
            payload[name] = summary(storable(str(payload.get(name, ""))[:READ_CHARS]))
        if "tool" in payload:
            payload["tool"] = storable(str(payload["tool"]))[:MAX_TOOL_CHARS]
        payload |= {"index": session.index, "step_type": step_type, "compacted": session.compacted}
        session.index, session.compacted = session.index + 1, False
        identity = {name: value for name, value in payload.items() if name != "ms"}
        content = json.dumps(identity, ensure_ascii=False, sort_keys=True)
        where = {"group_id": self._group_id, "agent_id": agent_id, "session_id": session_id}
        event_id = uuid5(STEPS, "\x00".join((*where.values(), content)))
        envelope = {"type": "turn.step", "event_id": event_id, "occurred_at": datetime.now(UTC)}
        return {**envelope, **where, "payload": payload}


#: A step of an answer: its type, tool, input, output, and whether it worked.
_Part = tuple[StepType, str | None, str, str, bool | None]


def _parts_of(plain: Sequence[Message], chat: Sequence[ChatMessage]) -> list[_Part]:
    """The steps that messages are, in their order; system prompts are none."""
    messages = list(chat) or [ChatMessage(role=message.role, content=message.text) for message in plain]
    names: dict[str, str] = {}
    parts: list[_Part] = []
    for message in messages:
        text = message.content or ""
        if message.role == "user" and text.strip():
            parts.append(("user_request", None, text, "", None))
        elif message.role == "tool":
            extra = message.model_extra or {}
            tool = names.get(message.tool_call_id or "") or str(extra.get("name") or "tool")
            parts.append(("tool_result", tool, "", text, _worked(extra, text)))
        elif message.role == "assistant":
            for call in message.tool_calls or []:
                name, arguments = _call_of(call)
                names[str(call.get("id", ""))] = name
                parts.append(("tool_call", name, arguments, "", None))
            if text.strip():
                parts.append(("generation", None, "", text, None))
    return parts


def _hash(part: _Part) -> int:
    step_type, tool, input_text, output_text, _ = part
    return hash((step_type, tool, input_text[:READ_CHARS], output_text[:READ_CHARS]))


def _count_recorded(hashes: list[int], parts: list[int]) -> int:
    """How many of the first parts were recorded before: the whole record, or as many as equal its end."""
    if parts[: len(hashes)] == hashes:
        return len(hashes)
    return next(
        (count for count in range(min(len(hashes), len(parts)), 0, -1) if hashes[-count:] == parts[:count]), 0
    )


def _call_of(call: JsonMapping) -> tuple[str, str]:
    function = call.get("function")
    fields: JsonMapping = function if isinstance(function, Mapping) else call
    arguments = fields.get("arguments", "")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return str(fields.get("name") or "tool"), text


def _worked(extra: Mapping[str, Any], content: str) -> bool:
    """Whether a tool's result is one: it says that it is none, or begins with the word."""
    if isinstance(extra.get("is_error"), bool):
        return not extra["is_error"]
    start = content[:40].lstrip(" \"'{[(").lower()
    return not start.startswith(("error", "traceback", "exception", "failed", "错误", "失败", "异常"))


class TrajectoryStage(Stage):
    """Records what was asked, found, called and answered: ``put`` takes the events to be published."""

    name, priority = "trajectory", 650

    def __init__(self, put: Callable[[JsonMapping], object], group_id: str) -> None:
        self._put = put
        self._recorder = StepRecorder(group_id)

    def before(self, exchange: Exchange) -> Exchange:
        session_id, text = exchange.session_id, exchange.user_input
        if session_id is not None and text.strip():
            self._record(
                self._recorder.record_request(
                    exchange.agent_id, session_id, text, _retrieved(exchange.injected)
                )
            )
        return exchange

    def after(self, exchange: Exchange) -> Exchange:
        agent_id, session_id = exchange.agent_id, exchange.session_id
        if session_id is not None:
            self._record(self._recorder.record_answer(agent_id, session_id, exchange.messages, exchange.chat))
        return exchange

    def step(self, agent_id: str, session_id: str, step_type: StepType, **fields: Any) -> None:
        """Record one step that the program reports itself."""
        self._record([self._recorder.step(agent_id, session_id, step_type, **fields)])

    def compacted(self, exchange: Exchange) -> None:
        """Note that the conversation is compacted."""
        if exchange.session_id is not None:
            self._recorder.compacted(exchange.agent_id, exchange.session_id)

    def _record(self, events: Sequence[JsonMapping]) -> None:
        for event in events:
            self._put(event)


def _retrieved(injected: InjectedContext | None) -> str:
    """Says what was found for a request; empty if nothing was."""
    if injected is None or not injected.context:
        return ""
    return f"{len(injected.memories)} memories, {injected.tokens} tokens"


class SkillStage(Stage):
    """Records the skills that memory put into the prompt (priority 200), for the votes that follow.

    Args:
        step: records a step of an agent, of a session, with ``tool`` and ``input``.
    """

    name, priority = "skills", 200

    def __init__(self, step: Callable[..., None]) -> None:
        self._step = step

    def before(self, exchange: Exchange) -> Exchange:
        agent_id, session_id = exchange.agent_id, exchange.session_id
        if session_id is not None and exchange.injected is not None:
            for skill in exchange.injected.skills:
                self._step(agent_id, session_id, "skill", tool=str(skill.id), input=skill.name)
        return exchange


#: Tokens of a hint at most.
HINT_TOKENS = 150
#: … of which the name and the description may take.
_NAME_TOKENS, _DESCRIPTION_TOKENS = 30, 45
#: … or so much of that, if it does not fit.
_SHARES = (1.0, 0.5, 0.2, 0.0)
#: Sessions that are remembered as having had theirs; seconds between two questions for one.
SESSIONS, ASK_SECONDS = 1_000, 60.0

_SAYS: dict[Language, str] = {
    "en": (
        "[A {kind} was learned, is not in use and waits to be confirmed. If it fits, ask the user once"
        " whether to keep it. {preface} {name}, about {about}.]"
    ),
    "zh": (
        "[学到一个{kind}，尚未启用，等待确认。如果合适，可问用户一次是否保留。{preface}{name}，"
        "内容：{about}。]"
    ),
}
_KINDS: dict[Language, dict[ArtifactKind, str]] = {
    "en": {"skill": "skill", "pipeline": "workflow"},
    "zh": {"skill": "技能", "pipeline": "流程"},
}


def hint(kind: ArtifactKind, name: str, description: str) -> str:
    """A hint at a candidate, by its name and what it is about, of at most ``HINT_TOKENS`` tokens."""
    language = language_of(name + description)
    text = ""
    for share in _SHARES:
        values = {
            "name": _quoted(name, share * _NAME_TOKENS),
            "about": _quoted(description, share * _DESCRIPTION_TOKENS),
        }
        text = _SAYS[language].format(kind=_KINDS[language][kind], preface=PREFACE[language], **values)
        if estimate_tokens(text) <= HINT_TOKENS:
            break
    return text


def _quoted(text: str, tokens: float) -> str:
    return quoted_to_tokens(" ".join(text.split()), int(tokens)) or quoted("")


class HintStage(Stage):
    """Puts one hint a session into the prompt (priority 78); asks for it at most once in ``ASK_SECONDS``.

    Args:
        pending: the hint for an agent and a user, asked within so many seconds; empty if nothing waits.
        clock: monotonic seconds.
    """

    name, priority = "evolution", 78

    def __init__(
        self, pending: Callable[[str, str | None, float], str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pending, self._clock = pending, clock
        #: When each session may be asked for next; never again, once it had its hint.
        self._next: Recent[tuple[str, str], float] = Recent(SESSIONS)
        self._lock = Lock()

    def before(self, exchange: Exchange) -> Exchange:
        if exchange.session_id is None:
            return exchange
        key, now = (exchange.agent_id, exchange.session_id), self._clock()
        with self._lock:
            if now < self._next.get(key, now):
                return exchange
            self._next[key] = now + ASK_SECONDS  # also if nobody answers
        text = self._pending(exchange.agent_id, exchange.user_id, max(exchange.seconds_left, 0.01))
        if not text or not exchange.fits(text):
            return exchange
        with self._lock:
            self._next[key] = math.inf
        return exchange.with_paragraph(text)


#: Does what a message asks of the agent's appointments, within so many seconds.
Scheduling = Callable[[AskSchedules, float], AskedSchedules]
#: Tokens that a confirmation may have in the prompt, and the share of the room that there is.
NOTE_TOKENS, NOTE_SHARE = 300, 0.5
#: Before the confirmation in the prompt.
MARK = "[schedule]"
#: Share of the time that is left for this question: memory comes after it.
PATIENCE = 0.5
#: Seconds within which "When shall I remind you?" may be answered by a time alone.
ANSWERED_WITHIN = 600.0


class ScheduleStage(Stage):
    """Does what a message asks of the agent's appointments (priority 140, before memory fills the prompt).

    ``reply`` of the exchange is the confirmation, or the question that asks back; the prompt has it, too. A
    request that was asked back goes along with the user's next message, which may be the time that it lacked.
    """

    name, priority = "schedules", 140

    def __init__(
        self,
        scheduling: Scheduling,
        tz: str | ZoneOf | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduling, self._zone_of, self._clock = scheduling, zone_of_user(tz), clock
        #: The request of each session that was asked back, and when.
        self._open: Recent[tuple[str, str | None, str | None], tuple[str, float]] = Recent(SESSIONS)
        self._lock = Lock()

    def before(self, exchange: Exchange) -> Exchange:
        text = exchange.user_input
        if not text.strip():
            return exchange
        patience = exchange.seconds_left * PATIENCE
        who = (exchange.agent_id, exchange.session_id, exchange.user_id)
        earlier = self._asked_back(who)
        request = checked(
            AskSchedules,
            agent_id=exchange.agent_id,
            text=text[:MAX_TEXT_CHARS],
            tz=self._zone_of(exchange.user_id),
            session_id=exchange.session_id,
            user_id=exchange.user_id,
            completes=earlier,
        )
        answer = self._scheduling(request, max(patience, 0.01))
        if answer.certainty == "unclear" and who[1:] != (None, None):
            with self._lock:
                self._open[who] = (earlier or text[:MAX_TEXT_CHARS], self._clock())
        if answer.confirmation is None:
            return exchange
        # The prompt speaks as the program does: what the user asked for stands in it as a quotation.
        most = NOTE_TOKENS if exchange.room is None else min(NOTE_TOKENS, int(exchange.room * NOTE_SHARE))
        note = quoted_to_tokens(answer.confirmation, most - estimate_tokens(MARK))
        return replace(
            exchange.with_paragraph(f"{MARK} {note}") if note else exchange, reply=answer.confirmation
        )

    def _asked_back(self, who: tuple[str, str | None, str | None]) -> str | None:
        """The request that the user's last message made and that lacked something; returned once."""
        with self._lock:
            text, when = self._open.pop(who, (None, 0.0))
        return text if self._clock() - when <= ANSWERED_WITHIN else None
