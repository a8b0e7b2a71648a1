"""Answers to the questions of :mod:`jiyi.protocol.queries`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from tasks.framework.answering import answers

M = TypeVar("M", bound=BaseModel)


def inspects(what: str, query: type[M]) -> Callable[[Callable[[M], Any]], Callable[[M], Any]]:
    """The task ``inspect.<what>``; its answer may hold ids and times, which become text."""

    def register(function: Callable[[M], Any]) -> Callable[[M], Any]:
        answers(f"inspect.{what}", query)(lambda request: to_jsonable_python(function(request)))
        return function

    return register
