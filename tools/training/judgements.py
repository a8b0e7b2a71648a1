"""What is trained: for each judgement its features, how they are weighed, and how sure it has to be to be
acted on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.heads.judgements import (
    ANY,
    ATTRIBUTES,
    CHANGES,
    FACTS,
    FORGET,
    KEEPING,
    KINDS,
    LASTING,
    PRIVATE,
    REQUESTS,
    RETIRE,
    RETIRING,
    SATISFACTION,
    Pair,
    Vectors,
    compared,
    in_context,
)
from engine.heads.model import WIDTH, Inputs
from tools.training.fitting import Shape

#: Plain features of a message in its context, and of two statements.
IN_CONTEXT, COMPARED = 13, 28


@dataclass(frozen=True, slots=True)
class Action:
    """Labels acted on alike (none: whichever is the likeliest), and precisions whose least probabilities are
    kept, the default first.
    """

    labels: tuple[str, ...]
    precisions: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """``actions`` by the name under which their thresholds are kept."""

    name: str
    read: Callable[[Sequence[Pair], Vectors], Inputs]
    shape: Shape
    actions: Mapping[str, Action]


def _in_context(message: float, before: float, words: float, strength: float) -> Shape:
    return Shape(((2 * WIDTH, message), (2 * WIDTH, before), (IN_CONTEXT, 0.5)), words, strength)


def _each(labels: Sequence[str], *precisions: float) -> dict[str, Action]:
    return {label: Action((label,), precisions) for label in labels}


TASKS = (
    Task(FACTS, in_context, _in_context(1.5, 0.7, 1.5, 1.0), _each([LASTING], 0.91, 0.8, 0.95)),
    Task(KINDS, in_context, _in_context(1.5, 0.7, 1.5, 2.0), {}),
    Task(ATTRIBUTES, in_context, _in_context(2.0, 0.7, 2.0, 3.0), {ANY: Action((), (0.75, 0.85))}),
    Task(
        SATISFACTION,
        in_context,
        _in_context(0.7, 0.4, 2.5, 1.0),
        _each(["positive", "negative"], 0.8, 0.7, 0.9),
    ),
    Task(
        REQUESTS,
        in_context,
        _in_context(1.5, 0.5, 1.5, 2.0),
        _each(["new", "cancel", "move", "list"], 0.9, 0.8, 0.95),
    ),
    Task(
        KEEPING,
        in_context,
        _in_context(1.0, 0.5, 4.0, 2.0),
        {**_each([PRIVATE], 0.99, 0.9, 0.97), **_each([FORGET], 0.9, 0.8, 0.95)},
    ),
    Task(
        CHANGES,
        compared,
        Shape(((WIDTH, 0.6), (WIDTH, 1.7), (WIDTH, 1.0), (WIDTH, 10.0), (2, 2.0), (COMPARED, 1.0)), 1.5, 1.0),
        {RETIRE: Action(RETIRING, (0.9, 0.8, 0.85, 0.95, 0.98))},
    ),
)
