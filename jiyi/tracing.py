"""Spans of OpenTelemetry in programs and services that have it loaded; in all others nothing.

Nothing here imports OpenTelemetry: the service loads it if the standard variables ask for it
(``workers.tracing``). Attributes hold names, counts and codes, never the words of a memory, a prompt or an
error.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")
#: The header of W3C's Trace Context, in messages and in requests.
HEADER = "traceparent"
_FORM = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
#: Traces that one span links to: those of a whole batch of messages.
MOST_LINKS = 256
#: What made our spans, as OpenTelemetry calls it.
SCOPE = "jiyi"
#: What is needed to trace: its interface alone many packages load.
_API, _SDK, _CONTEXT = "opentelemetry.trace", "opentelemetry.sdk.trace", "opentelemetry.context"
#: Nanoseconds that a statement or a command takes at least to have a span of its own.
LEAST_NS = 1_000_000

Kind = Literal["internal", "server", "client", "producer", "consumer"]
Attributes = Mapping[str, str | int | float | bool]
_OFF: AbstractContextManager[None] = nullcontext()
_carried: ContextVar[Mapping[Any, str]] = ContextVar("traces", default={})  # noqa: B039 – never changed


def is_loaded() -> bool:
    """Whether anything may be traced in this process."""
    return _SDK in sys.modules


def span(
    name: str,
    kind: Kind = "internal",
    attributes: Attributes | None = None,
    *,
    within: Iterable[str] | None = None,
) -> AbstractContextManager[Any]:
    """A span around a block; gives it, or None where it is not recorded.

    Args:
        name: one of few.
        kind: as OpenTelemetry has it.
        attributes: by the names of the semantic conventions.
        within: ``traceparent`` of what caused it. One is its parent; if there are several, those that are
            sampled are linked. None: what this thread is in.
    """
    api = _loaded()
    return _OFF if api is None else _Span(api, name, kind, attributes, within)


def part(
    name: str, kind: Kind = "internal", attributes: Attributes | None = None
) -> AbstractContextManager[Any]:
    """The same, for what is of interest only as a part of something that is recorded."""
    api = _loaded()
    return (
        _OFF
        if api is None or not api.get_current_span().is_recording()
        else _Span(api, name, kind, attributes, None)
    )


def leaf(name: str, attributes: Attributes) -> AbstractContextManager[None]:
    """The same for a request to a server that has no parts: only if it takes ``LEAST_NS``, or fails."""
    api = _loaded()
    return _OFF if api is None or not api.get_current_span().is_recording() else _Leaf(api, name, attributes)


@contextmanager
def batch(name: str, traces: Mapping[K, str], member_span: str = "") -> Iterator[None]:
    """A span around the work on a batch, linked to the traces of its members; work that is enqueued in the
    block gets their traces. ``member_span``: name of a span that each of several traces gets at the end, if
    there was no error.
    """
    if not is_loaded():
        yield
        return
    distinct = dict.fromkeys(traces.values())
    with span(name, "consumer", {"messaging.batch.message_count": len(traces)}, within=distinct):
        here = current() or ""
        token = _carried.set({key: here if _is_same(trace, here) else trace for key, trace in traces.items()})
        try:
            yield
        finally:
            _carried.reset(token)
        if member_span:  # the trace that contains the block has the block's own span already
            mark(member_span, [trace for trace in distinct if not _is_same(trace, here)])


def carried() -> Mapping[Any, str]:
    """What each of the batch that this thread is at is traced as."""
    return _carried.get()


def mark(name: str, traces: Iterable[str]) -> None:
    """A span in each of these traces, over the time of the current one: what has come of it for them."""
    api = _loaded()
    if api is None:
        return
    here = api.get_current_span()
    context, began = here.get_span_context(), getattr(here, "start_time", None)
    tracer = _tracer(api.get_tracer_provider())
    for cause in _contexts(api, traces):
        if not cause.trace_flags & 1:
            continue
        own = cause.trace_id == context.trace_id
        links = [api.Link(context)] if context.is_valid and not own else []
        parent = api.set_span_in_context(here if own else api.NonRecordingSpan(cause))
        tracer.start_span(name, parent, links=links, start_time=began).end()


def headers() -> dict[str, str]:
    """Of a message or request that is sent now: what it is a part of, if that is traced."""
    trace = current()
    return {} if trace is None else {HEADER: trace}


def current() -> str | None:
    """The ``traceparent`` of what this thread is in; None if that is not traced."""
    api = _loaded()
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    return (
        f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"
        if context.is_valid
        else None
    )


def ids() -> tuple[str, str] | None:
    """Of what this thread is in: of the trace and of the span, in hexadecimal."""
    trace = current()
    return None if trace is None else (trace[3:35], trace[36:52])


def received(carrier: Any) -> tuple[str, ...]:
    """The ``traceparent`` in a message's or request's headers, for :func:`span`; none if it is none."""
    value = carrier.get(HEADER) if carrier and is_loaded() else None
    return (value,) if isinstance(value, str) and _FORM.fullmatch(value) else ()


def failed(kind: str) -> None:
    """What this thread is in has failed, though it ends without an error. ``kind``: a code or class name."""
    api = _loaded()
    if api is not None:
        _fail(api, api.get_current_span(), kind)


def bound(function: Callable[P, R]) -> Callable[P, R]:
    """The function as a part of what this thread is in, for other threads."""
    api = _loaded()
    if api is None:
        return function
    here = api.get_current_span()

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with api.use_span(here, record_exception=False, set_status_on_exception=False):
            return function(*args, **kwargs)

    return run


def _loaded() -> Any:
    return sys.modules.get(_API) if _SDK in sys.modules else None


class _Span:
    """One span around a block. A class: a generator would take twice the time."""

    __slots__ = ("_api", "_make", "_span", "_token")

    def __init__(
        self, api: Any, name: str, kind: Kind, attributes: Attributes | None, within: Iterable[str] | None
    ) -> None:
        self._api, self._make = api, (name, kind, attributes, within)

    def __enter__(self) -> Any:
        api, (name, kind, attributes, within) = self._api, self._make
        parent, links = _cause(api, within)
        self._span = _tracer(api.get_tracer_provider()).start_span(
            name, parent, api.SpanKind[kind.upper()], attributes, links
        )
        self._token = sys.modules[_CONTEXT].attach(api.set_span_in_context(self._span))
        return self._span if self._span.is_recording() else None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception):  # not its words: they may be somebody's
            _fail(self._api, self._span, getattr(error, "code", None) or type(error).__qualname__)
        sys.modules[_CONTEXT].detach(self._token)
        self._span.end()


class _Leaf:
    """A span that is made when the block has ended, if it took long enough or failed."""

    __slots__ = ("_api", "_began", "_make")

    def __init__(self, api: Any, name: str, attributes: Attributes) -> None:
        self._api, self._make = api, (name, attributes)

    def __enter__(self) -> None:
        self._began = time.time_ns()

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if error is None and time.time_ns() - self._began < LEAST_NS:
            return
        name, attributes = self._make
        api = self._api
        span = _tracer(api.get_tracer_provider()).start_span(
            name, None, api.SpanKind.CLIENT, attributes, start_time=self._began
        )
        if isinstance(error, Exception):
            _fail(api, span, type(error).__qualname__)
        span.end()


@lru_cache(maxsize=4)
def _tracer(provider: Any) -> Any:
    return provider.get_tracer(SCOPE)


def _cause(api: Any, within: Iterable[str] | None) -> tuple[Any, Any]:
    """The parent of a new span, and its links."""
    if within is None:
        return None, None
    contexts = _contexts(api, within)
    sampled = [context for context in contexts if context.trace_flags & 1]
    if len(sampled) > 1:
        return api.set_span_in_context(api.INVALID_SPAN), [
            api.Link(context) for context in sampled[:MOST_LINKS]
        ]
    # One that is not recorded is a parent, too: what it causes is not recorded either.
    parent = next(iter(sampled or contexts), None)
    return api.set_span_in_context(api.INVALID_SPAN if parent is None else api.NonRecordingSpan(parent)), None


def _contexts(api: Any, traces: Iterable[str]) -> list[Any]:
    matches = (_FORM.fullmatch(trace) for trace in dict.fromkeys(traces))
    return [_context(api, *match.groups()) for match in matches if match is not None]


def _context(api: Any, trace: str, span_id: str, flags: str) -> Any:
    return api.SpanContext(
        int(trace, 16), int(span_id, 16), is_remote=True, trace_flags=api.TraceFlags(int(flags, 16))
    )


def _is_same(trace: str, other: str) -> bool:
    return trace[3:35] == other[3:35]


def _fail(api: Any, recorded: Any, kind: str) -> None:
    if recorded.is_recording():
        recorded.set_attribute("error.type", str(kind))
        recorded.set_status(api.StatusCode.ERROR)
