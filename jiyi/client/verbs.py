"""Methods that are written once for both clients: a generator of steps (:mod:`jiyi.client.steps`) that yields
what is to be sent and gets back what was answered. To type checkers ``verb`` and ``rows`` give ``T`` in
:class:`jiyi.Client`, an awaitable of ``T`` in :class:`jiyi.AsyncClient`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import cached_property, partial, wraps
from types import MethodType
from typing import Any, Concatenate, Generic, overload

from pydantic import BaseModel

from jiyi.client.calls import Namespace
from jiyi.client.signatures import describe, describe_action
from jiyi.client.steps import Awaiting, Blocking, P, PageFetcher, Steps, T
from jiyi.protocol.actions import TABLE
from jiyi.protocol.base import Rows


class verb(Generic[P, T]):  # noqa: N801 – a decorator
    """Makes a function of steps a method of both clients."""

    def __init__(self, function: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        #: The steps themselves, for other verbs: ``yield from Keys.create.steps(keys, "mine")``.
        self.steps = function

    @cached_property
    def perform(self) -> Any:
        """The method; made when it is first needed."""
        steps = self.steps

        @wraps(steps)
        def perform(namespace: Namespace[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
            # A method of its.
            return namespace._calls.do(lambda: steps(namespace, *args, **kwargs))  # noqa: SLF001

        perform.steps = steps  # type: ignore[attr-defined]
        self._describe(perform)
        return perform

    def _describe(self, perform: Callable[..., Any]) -> None:
        describe(perform, self.steps)

    @overload
    def __get__(self, namespace: None, owner: Any = None) -> verb[P, T]: ...
    @overload
    def __get__(self, namespace: Namespace[Blocking], owner: Any = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, namespace: Namespace[Awaiting], owner: Any = None) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, namespace: Any, owner: Any = None) -> Any:
        return self.perform if namespace is None else MethodType(self.perform, namespace)


class action(verb[P, T]):  # noqa: N801 – as verb
    """An action of the table as a method of both clients, the fields of its request as arguments;
    :mod:`jiyi.client.actions` has them all.
    """

    def __init__(self) -> None:
        """Its steps follow from its name."""

    def __set_name__(self, owner: type, name: str) -> None:
        subject = re.sub(r"(?<!^)([A-Z])", r"_\1", owner.__name__.removesuffix("Actions")).lower()
        self.declared = TABLE[f"{subject}.{name.rstrip('_')}"]

        def steps(namespace: Namespace[Any], /, *args: P.args, **fields: P.kwargs) -> Steps[T]:
            if args:
                raise TypeError(f"{self.declared.name}: its fields are given by their names, such as id=…")
            return namespace._call(self.declared.name, None, **fields)  # noqa: SLF001 – as above

        steps.__name__, steps.__qualname__ = name, f"{owner.__name__}.{name}"
        steps.__doc__ = (
            self.declared.doc or self.declared.request.__doc__ or f"The action {self.declared.name}."
        )
        self.steps = steps

    def _describe(self, perform: Callable[..., Any]) -> None:
        describe_action(perform, self.declared.request, self.declared.result)


class Answers(Generic[T]):
    """``Answers[Result].to(Request)``: what a type checker knows of an action, as the table says it."""

    @classmethod
    def to(cls, request: Callable[P, BaseModel]) -> action[P, T]:  # noqa: ARG003 – only its type counts
        return action()


class rows(Generic[P, T]):  # noqa: N801 – a decorator
    """Makes a function that turns pages a method of both clients, which gives row after row."""

    def __init__(self, function: Callable[Concatenate[Any, P], PageFetcher[T]]) -> None:
        self._function = function

    @cached_property
    def _iterate(self) -> Any:
        function = self._function

        @wraps(function)
        def iterate(namespace: Namespace[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
            turn = function(namespace, *args, **kwargs)  # now, so that wrong arguments are said now
            # A method of its.
            calls = namespace._calls  # noqa: SLF001
            return (_each_async if calls.awaits else _each)(calls.do, turn)

        describe(iterate, function)
        return iterate

    @overload
    def __get__(self, namespace: None, owner: Any = None) -> rows[P, T]: ...
    @overload
    def __get__(self, namespace: Namespace[Blocking], owner: Any = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, namespace: Namespace[Awaiting], owner: Any = None) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, namespace: Any, owner: Any = None) -> Any:
        return self._iterate if namespace is None else MethodType(self._iterate, namespace)


def _each(take: Callable[[Any], Any], turn: PageFetcher[T]) -> Iterator[T]:
    page: Rows[T] = take(partial(turn, None))
    yield from page.rows
    while page.next is not None:
        page = take(partial(turn, page.next))
        yield from page.rows


async def _each_async(take: Callable[[Any], Any], turn: PageFetcher[T]) -> AsyncIterator[T]:
    page: Rows[T] | None = None
    while page is None or page.next is not None:
        page = await take(partial(turn, None if page is None else page.next))
        for row in page.rows:
            yield row
