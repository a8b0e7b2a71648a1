"""What questions to an LLM have used. Whoever keeps accounts listens with :func:`on_usage`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Prices are per so many tokens.
PRICED_TOKENS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """One question, however often it was tried."""

    #: The prompt's name and version: ``insights@1``.
    prompt: str
    model: str
    #: Whose it was; empty where the question does not say.
    group_id: str
    calls: int
    #: Calls that brought nothing that could be used.
    failures: int
    #: As the vendor counts them; 0 where it does not.
    prompt_tokens: int
    completion_tokens: int
    #: In the currency of ``JIYI_LLM_PRICE_IN``; 0 where no price is set.
    cost: float


_listener: Callable[[Usage], None] | None = None


def on_usage(listener: Callable[[Usage], None] | None) -> None:
    """Have ``listener`` called after each question, in the thread that asked; it must not raise. None: nobody."""
    global _listener  # noqa: PLW0603 – one of each process
    _listener = listener


def report(usage: Usage) -> None:
    """Tell the listener, if there is one."""
    if _listener is not None:
        _listener(usage)


def cost_of(prompt_tokens: int, completion_tokens: int, price_in: float, price_out: float) -> float:
    """What so many tokens cost at prices per million."""
    return (prompt_tokens * price_in + completion_tokens * price_out) / PRICED_TOKENS
