"""What is the matter with a server that cannot be used: a word for programs, and a sentence for people that names the fix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from jiyi.text.translatable import Translatable

#: ``ok``; ``away``: not reached, or it broke off; ``starting``; ``full``: no memory left; ``disk_full``: it cannot write to
#: its disk; ``exhausted``: no connection is free; ``read_only``: a replica, or switched to read only.
State = Literal["ok", "away", "starting", "full", "disk_full", "exhausted", "read_only"]

#: What Valkey's errors begin with. redis-py takes some of these words away and makes them classes: see :data:`_CLASSES`.
_WORDS: dict[str, State] = {
    "OOM ": "full",
    "MISCONF ": "disk_full",
    "LOADING ": "starting",
    "READONLY ": "read_only",
    "max number of clients reached": "exhausted",
}
_CLASSES: dict[str, State] = {
    "OutOfMemoryError": "full",
    "BusyLoadingError": "starting",
    "ReadOnlyError": "read_only",
    "MaxConnectionsError": "exhausted",
}
OF_VALKEY: dict[State, str] = {
    "away": Translatable("cannot be reached"),
    "starting": Translatable("is still loading its data: it answers in a moment"),
    "full": Translatable("has no memory left: it takes nothing more until it is emptied, or its maxmemory is raised"),
    "disk_full": Translatable("cannot write to its disk: it takes nothing more until there is room on it"),
    "exhausted": Translatable("has no connection left: raise its maxclients, or run fewer processes"),
    "read_only": Translatable("is a replica that takes no writes: point the address to the primary"),
}


def state_of_valkey(error: BaseException) -> State:
    """What an error of redis-py, or kombu's around it, says of Valkey or a broker like it."""
    for cause in _causes(error):
        state = _CLASSES.get(type(cause).__name__)
        message = str(cause).rpartition(" caused error: ")[2]  # of a pipeline, redis-py says first which command it was
        state = state or next((state for word, state in _WORDS.items() if message.startswith(word)), None)
        if state is not None:
            return state
    return "away"


def sentence_of_valkey(error: BaseException) -> str:
    """``has no memory left: …``; what the system says, where nothing else is known."""
    state = state_of_valkey(error)
    message = " ".join(str(error).split())
    return f"{OF_VALKEY[state]} ({message})" if state == "away" and message else OF_VALKEY[state]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was made of, each once."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__
