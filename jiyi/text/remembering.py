"""What a process remembers of texts, and the one way to forget all of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_forgetting: list[Callable[[], None]] = []


def remembered(texts: int) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Keep the answers for the latest ``texts`` texts: by this alone, because erasures clear it."""

    def keep(function: Callable[_P, _T]) -> Callable[_P, _T]:
        kept = lru_cache(texts)(function)
        _forgetting.append(kept.cache_clear)
        return kept  # type: ignore[return-value] # the same arguments, which functools does not say

    return keep


def forget_texts() -> None:
    """Forget every text, and every word of one: some are names."""
    for forget in _forgetting:
        forget()
