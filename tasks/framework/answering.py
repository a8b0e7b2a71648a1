"""Tasks that answer: check caller and request, call a function, push the reply. No traceback is sent.

A question is answered for the group that it names. A call is signed with an API key, which must be valid,
have the scope that is needed and belong to that group; or with the service's secret, which may do
everything. Unsigned calls are for deployments where only trusted clients can reach the broker
(``JIYI_ACCEPT_UNSIGNED``), and never for operators.
"""

from __future__ import annotations

import hmac
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from celery import shared_task
from pydantic import BaseModel, ConfigDict, ValidationError
from redis.client import Pipeline

from engine.operations import deadline
from jiyi import tracing
from jiyi.errors import (
    InvalidRequest,
    JiyiError,
    NoAnswer,
    NotAllowed,
    ServiceError,
    TooManyQuestions,
    problems_of,
)
from jiyi.once import once
from jiyi.protocol.base import JsonMapping, Name, user_of
from jiyi.protocol.limits import ASKING_SECONDS, MEMORY_SECONDS, RETRIEVAL_THREADS, WAITING_CALLS, WORK_SHARE
from jiyi.protocol.wire.calls import NOBODY, REPLY_SECONDS, reply_key, reply_of, reply_of_error
from jiyi.protocol.wire.signatures import (
    AT_HEADER,
    ID,
    KEY_HEADER,
    SERVICE,
    SIGNATURE_HEADER,
    KeyScope,
    call_signature,
    service_call_key,
)
from jiyi.settings import get_settings
from models.accounts.api_keys import ApiKey, known_keys, noted_uses
from models.accounts.audit import OPERATOR
from models.db import valkey_keys
from models.db.actions import Actor
from models.db.errors import outage, refused_value
from models.db.scope import for_groups
from models.db.valkey import valkey
from models.operations import meters

log = logging.getLogger(__name__)
A = TypeVar("A")
M = TypeVar("M", bound=BaseModel)
#: Seconds; a caller gives up long before.
ANSWER_TIME_LIMIT = 60
#: Groups that are remembered; of more those go that were served longest ago.
MOST_GROUPS = 10_000
#: Turns that no single group gets, so that another one's call begins at once.
KEPT_FREE = 2
#: Seconds for which a signature is good: a call that waited longer in its queue is refused, and …
CALL_SECONDS = 300.0
#: … how far ahead the caller's clock may be.
CLOCK_SECONDS = 60.0
#: For the audit log: a call that nobody signed.
UNSIGNED = "unsigned"
_NOT_SIGNED = (
    "not signed: give the client an API key (JIYI_KEY), or the service's JIYI_SECRET_KEY; "
    "on the service's own machine the command line finds the latter in JIYI_HOME"
)
_WRONG = "the signature does not match any known key for this call"


#: What follows from Valkey's answers to a pipeline; None if nothing does.
Then = Callable[[list[Any]], None] | None
#: What goes to Valkey with a reply: of the caller, the request, the answer, and the seconds that it took.
OnReply = Callable[[Pipeline, Actor, Any, Any, float], Then]


class _Whose(BaseModel):
    """The part of every call that says for which group it asks."""

    model_config = ConfigDict(extra="ignore")

    group_id: Name


def answers(
    task: str, model: type[M], *, scope: KeyScope, on_reply: OnReply | None = None
) -> Callable[[Callable[[M], Any]], Callable[[M], Any]]:
    """Make a function of a question, which names its group and changes nothing, a Celery task."""

    def register(function: Callable[[M], Any]) -> Callable[[M], Any]:
        serve(task, model, lambda _actor, body: function(body), scope=scope, on_reply=on_reply)
        return function

    return register


def serve(
    task: str,
    model: type[M],
    perform: Callable[[Actor, M], Any],
    *,
    scope: KeyScope,
    changes: bool = False,
    on_reply: OnReply | None = None,
) -> None:
    """Make a function of actor and request a Celery task that answers callers with the right ``scope``, in
    the scope of the group they ask for.

    The message is acknowledged early: the caller asks again where a worker dies. So ``perform`` must be safe
    to repeat.
    """

    @shared_task(name=task, bind=True, acks_late=False, ignore_result=True, time_limit=ANSWER_TIME_LIMIT)
    def run(self: Any, request_id: str, request: JsonMapping, actor: str | None = None) -> None:
        del actor  # part of what is signed

        def parse() -> tuple[Actor, M]:
            group_id = _Whose.model_validate(request).group_id
            who = caller(self.request, task, group_id, scope, changes=changes)
            names_group = "group_id" in model.model_fields
            body = {name: value for name, value in request.items() if names_group or name != "group_id"}
            return who, model.model_validate(body)

        def answer(parsed: tuple[Actor, M]) -> Any:
            who, body = parsed
            with in_turn(self.request, who.group_id), for_groups(who.group_id, user=user_of(body)):
                return perform(who, body)

        began = time.monotonic()
        with tracing.span(task, "consumer", within=tracing.received(self.request)):
            replied = reply_to(task, request_id, parse, answer, model)
            parsed, value, reply = replied
            with valkey().pipeline(transaction=False) as pipe:
                then = None
                if on_reply is not None and parsed is not None:
                    then = on_reply(pipe, *parsed, value, time.monotonic() - began)
                pipe.lpush(reply_key(request_id), reply)
                pipe.expire(reply_key(request_id), REPLY_SECONDS)
                answered = pipe.execute()
            if then is not None:
                then(answered)


@contextmanager
def in_turn(request: Any, group_id: str) -> Iterator[None]:
    """Answer a Celery request when it is its group's turn, for as long as its caller waits.

    Raises:
        TooManyQuestions: too many calls of the group wait already.
        NoAnswer: nobody waits any more.
    """
    until = time.monotonic() + seconds_left(request)
    with turns().turn(group_id, until), deadline(until):
        yield


def seconds_left(request: Any) -> float:
    """Until the message expires: its sender waits no longer. At most what a task may take, as clocks
    differ.
    """
    expires = getattr(request, "expires", None)
    if isinstance(expires, str):
        with suppress(ValueError):
            expires = datetime.fromisoformat(expires)
    if not isinstance(expires, datetime):
        return float(ANSWER_TIME_LIMIT)
    remaining = (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) - datetime.now(UTC)
    return min(float(ANSWER_TIME_LIMIT), remaining.total_seconds())


@once
def turns() -> CallTurns:
    return CallTurns(RETRIEVAL_THREADS)


def reply_to(
    name: str, request_id: str, parse: Callable[[], A], answer: Callable[[A], Any], model: type[BaseModel]
) -> tuple[A | None, Any, bytes]:
    """The reply to a call, with the parsed request and the answer's value if it is no error."""
    try:
        parsed = parse()
    except ValidationError as error:
        return _refusal(InvalidRequest(problems_of(error, model)))
    except NotAllowed as error:
        return _refusal(error)
    try:
        value = answer(parsed)
        return parsed, value, reply_of(value)
    except JiyiError as error:
        return _refusal(error)
    except Exception as error:  # the caller gets a sentence and an id, the log gets the trace
        if (public_error := outage(error) or refused_value(error)) is not None:
            log.warning("%s: %s", name, error)
            return _refusal(public_error)
        log.exception("%s failed, request %s", name, request_id)
        meters.failing()
        failure = ServiceError(f"the service failed; its log has the details under request {request_id}")
        return _refusal(failure)


def _refusal(error: JiyiError) -> tuple[None, None, bytes]:
    tracing.failed(error.code)
    return None, None, reply_of_error(error)


@dataclass(slots=True)
class _Group:
    running: int = 0
    #: Calls that wait for their turn, in order.
    waiting: deque[threading.Event] = field(default_factory=deque)
    #: Seconds of turns, of which those long ago count less, at ``at``.
    used: float = 0.0
    at: float = 0.0

    def used_by(self, now: float) -> float:
        return self.used * math.exp((self.at - now) / MEMORY_SECONDS)

    def use(self, seconds: float, now: float) -> None:
        self.used, self.at = self.used_by(now) + seconds, now


class CallTurns:
    """Turns of one process. Thread-safe.

    Args:
        at_once: how many compute at a time.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self.groups: dict[str, _Group] = {}
        #: Those of the groups of which calls wait, in the order in which they began to.
        self._waiting: dict[str, _Group] = {}
        self._running = 0

    @contextmanager
    def turn(self, group_id: str, until: float) -> Iterator[None]:
        """Wait for a turn, and have it; ``until``: on ``time.monotonic``'s clock.

        Raises:
            TooManyQuestions: too many calls of the group wait already.
            NoAnswer: it was not its turn in time.
        """
        self._begin(group_id, until)
        began = time.monotonic()
        try:
            yield
        finally:
            self._end(group_id, time.monotonic() - began)

    @property
    def running(self) -> int:
        return self._running

    def waiting(self, group_id: str) -> int:
        group = self._waiting.get(group_id)
        return 0 if group is None else len(group.waiting)

    def _begin(self, group_id: str, until: float) -> None:
        now = time.monotonic()
        if now > until:
            raise NoAnswer("the call timed out before it began; the service is busy")
        with self._lock:
            group = self.of_group(group_id, now)
            if self._running < self._at_once and not group.waiting and group.running < self._most(group, now):
                group.running += 1
                self._running += 1
                return
            if len(group.waiting) >= WAITING_CALLS:
                raise TooManyQuestions(
                    f"{WAITING_CALLS} calls of this group are already waiting; retry later, with fewer at"
                    " a time"
                )
            turn = threading.Event()
            group.waiting.append(turn)
            self._waiting[group_id] = group
        with tracing.part("wait for a turn"):
            if turn.wait(max(0.0, until - now)):
                return
        with self._lock:
            if turn.is_set():  # just now: it is given back
                self._give_back(group)
            else:
                group.waiting.remove(turn)
                if not group.waiting:
                    del self._waiting[group_id]
        raise NoAnswer(
            "the call timed out in the queue; the service is busy, or the group has too many calls at once"
        )

    def _end(self, group_id: str, seconds: float) -> None:
        now = time.monotonic()
        with self._lock:
            group = self.groups[group_id]
            group.use(seconds, now)
            self._give_back(group)

    def _give_back(self, group: _Group) -> None:
        group.running -= 1
        self._running -= 1
        self._next()

    def _next(self) -> None:
        now = time.monotonic()
        while self._running < self._at_once:
            ready = [one for one in self._waiting.items() if one[1].running < self._most(one[1], now)]
            if not ready:
                return
            name, group = min(ready, key=lambda one: (one[1].running, one[1].used_by(now)))
            group.running += 1
            self._running += 1
            group.waiting.popleft().set()
            if not group.waiting:
                del self._waiting[name]

    def _most(self, group: _Group, now: float) -> int:
        if self._is_over(group, now):
            return 1
        return max(1, self._at_once - KEPT_FREE)

    def _is_over(self, group: _Group, now: float) -> bool:
        """Whether it has used more than its share lately, while others were there."""
        if group.used_by(now) <= WORK_SHARE * MEMORY_SECONDS:
            return False
        others = (other for other in self.groups.values() if other is not group)
        return any(other.running or other.waiting or now - other.at < ASKING_SECONDS for other in others)

    def of_group(self, group_id: str, now: float) -> _Group:
        """The group's calls; of too many idle groups those that were served longest ago go."""
        group = self.groups.get(group_id)
        if group is None:
            if len(self.groups) >= MOST_GROUPS:
                idle = [
                    name for name, entry in self.groups.items() if not entry.running and not entry.waiting
                ]
                for one in sorted(idle, key=lambda name: self.groups[name].at)[: MOST_GROUPS // 10]:
                    del self.groups[one]
            group = self.groups[group_id] = _Group(at=now)
        return group


def caller(request: Any, task: str, group_id: str, scope: KeyScope, *, changes: bool) -> Actor:
    """Who sent the Celery request, with the right ``scope`` in the group.

    A call that ``changes`` something is accepted once: anybody who reads the broker could send it again.

    Raises:
        NotAllowed: with the reason, which does not reveal what exists.
    """
    key_id, signature, at = (
        str(request.get(name) or "") for name in (KEY_HEADER, SIGNATURE_HEADER, AT_HEADER)
    )
    options = dict(request.kwargs or {})
    if not key_id and not signature:
        if scope == "operator" or get_settings().accept_unsigned != "all":
            raise NotAllowed(_NOT_SIGNED)
        return Actor(group_id, NOBODY if options.get("actor") == NOBODY else UNSIGNED, admin=True)
    key = None
    if key_id != SERVICE and (key := _keys().get(key_id) if ID.fullmatch(key_id) else None) is None:
        raise NotAllowed(_WRONG)
    expected = call_signature(
        _secret() if key is None else key.signing_key, task, at, request.args or (), options
    )
    if not hmac.compare_digest(expected.encode(), signature.encode("ascii", "replace")):
        raise NotAllowed(
            f"{_WRONG}: is JIYI_SECRET_KEY the same in every process?" if key is None else _WRONG
        )
    _check_time(at)
    if changes and not valkey().set(
        valkey_keys.call(signature), 1, nx=True, ex=int(CALL_SECONDS + CLOCK_SECONDS)
    ):
        raise NotAllowed("this call was already received; sign a new one")
    if key is None:
        name = options.get("actor")
        if name is None:
            return Actor(group_id, OPERATOR, operator=True, admin=True)
        return Actor(group_id, str(name))
    return _as_key(key, group_id, scope)


def _as_key(key: ApiKey, group_id: str, scope: KeyScope) -> Actor:
    refusal = key.refusal(datetime.now(UTC))
    if refusal:
        raise NotAllowed(f"this key is {refusal}")
    if key.group_id not in (None, group_id):
        raise NotAllowed(f"this key does not belong to the group {group_id!r}")
    if scope not in key.scopes:
        raise NotAllowed(f"this needs the scope {scope!r}, which the key does not have")
    _noted().get(key.key_id)
    return Actor(group_id, key.actor, operator="operator" in key.scopes, admin="admin" in key.scopes)


def _check_time(at: str) -> None:
    """The time is part of what was signed: a number, unless the signer does not know the protocol."""
    try:
        age = time.time() - float(at)
    except ValueError:
        raise NotAllowed(f"{AT_HEADER}: not a time in epoch seconds") from None
    if not -CLOCK_SECONDS <= age <= CALL_SECONDS:
        raise NotAllowed(
            f"signed {age:.0f} s ago by the caller's clock; a call is valid for {CALL_SECONDS:.0f} s: check"
            " the clocks"
        )


def _secret() -> bytes:
    secret_key = get_settings().secret_key.get_secret_value()
    if not secret_key:
        raise NotAllowed("signed by the service, but this worker does not know JIYI_SECRET_KEY")
    return service_call_key(secret_key)


#: This process's.
_keys, _noted = once(known_keys), once(noted_uses)
