"""Calls of models, by the names that OpenTelemetry's conventions for generative AI have: a span around each,
and a listener who counts.

No prompt, text or answer is recorded: only operation, provider, model, tokens, duration and outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, TypeVar, cast

from jiyi import tracing
from jiyi.protocol.base import JsonMapping

F = TypeVar("F", bound=Callable[..., Any])
Operation = Literal["chat", "embeddings", "rerank"]
#: Providers on this machine.
HERE = "local"


@dataclass(slots=True)
class ModelCall:
    """One call with all its tries."""

    operation: Operation
    provider: str
    model: str
    seconds: float = 0.0
    #: Class of what it raised; empty if it was answered.
    error: str = ""
    #: As the vendor counts them; 0 where it does not.
    input_tokens: int = 0
    output_tokens: int = 0
    response_model: str = ""

    def answered(self, answer: Any) -> None:
        """Record the usage and the model of a vendor's answer: an OpenAI-compatible one, or anything."""
        self.input_tokens, self.output_tokens = tokens_used(answer)
        model = answer.get("model") if isinstance(answer, dict) else None
        self.response_model = model[:128] if isinstance(model, str) else ""


_listener: Callable[[ModelCall], None] | None = None


def on_call(listener: Callable[[ModelCall], None] | None) -> None:
    """Have it called after each call, in the thread that made it; it must not raise. None: nobody."""
    global _listener  # noqa: PLW0603 – one of each process
    _listener = listener


@contextmanager
def calling(
    operation: Operation, provider: str, model: str, request: JsonMapping | None = None
) -> Iterator[ModelCall]:
    """Around one call of a model. ``request``: an OpenAI-compatible one."""
    call, began = ModelCall(operation, provider, model), time.perf_counter()
    kind: tracing.Kind = "internal" if provider == HERE else "client"
    with tracing.part(f"{operation} {model}", kind, _request_attributes(call, request or {})) as span:
        try:
            yield call
        except Exception as error:
            call.error = type(error).__name__
            raise
        finally:
            call.seconds = time.perf_counter() - began
            if span is not None:
                span.set_attributes(_response_attributes(call))
            if _listener is not None:
                _listener(call)


def embeds(method: F) -> F:
    """Makes a method of an embedder on this machine such a call."""

    @wraps(method)
    def run(self: Any, *args: Any) -> Any:
        with calling("embeddings", HERE, self.model):
            return method(self, *args)

    return cast("F", run)


def _request_attributes(call: ModelCall, request: JsonMapping) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": call.operation,
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.model,
    }
    limit = request.get("max_tokens") or request.get("max_completion_tokens")
    options = {
        "gen_ai.request.max_tokens": limit,
        "gen_ai.request.temperature": request.get("temperature"),
        "gen_ai.embeddings.dimension.count": request.get("dimensions"),
    }
    return attributes | {name: value for name, value in options.items() if isinstance(value, int | float)}


def _response_attributes(call: ModelCall) -> dict[str, Any]:
    attributes = {
        "gen_ai.response.model": call.response_model,
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
    }
    return {name: value for name, value in attributes.items() if value}


def tokens_used(answer: Any) -> tuple[int, int]:
    """Tokens of prompt and answer, as an OpenAI-compatible answer counts them; 0 where it does not."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    return _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 <= value <= 10**9 else 0
