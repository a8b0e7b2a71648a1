"""JSON lines between ``bench.peers`` and an adapter. Standard library only: peers' environments have no more.

The first line in says where the database and the embeddings are. Then ``{"remember": agent, "memories":
[…]}`` is answered with ``{"seconds": …}``, and ``{"ask": agent, "question": …, "top_k": …}`` with ``{"keys":
[…], "seconds": …}``. The seconds are those of the peer's own calls.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Protocol


class Adapter(Protocol):
    def remember(self, agent: str, memories: list[dict[str, str]]) -> None:
        """Store the memories (``key``, ``text``, ``time``, ``session``, ``speaker``) so that they can be
        found.
        """
        ...

    def ask(self, agent: str, question: str, top_k: int) -> list[str]:
        """The keys of what is found, best first."""
        ...

    def close(self) -> None:
        """End what it has started outside its own process."""


def serve(make: Callable[[dict[str, Any]], Adapter]) -> None:
    """Answer lines until standard input ends. An error ends the adapter, its last line as the reason."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not stand between the answers
    adapter = None
    try:
        adapter = make(json.loads(sys.stdin.readline()))
        _answer(answers, {"ready": True})
        for line in sys.stdin:
            request = json.loads(line)
            begun = time.perf_counter()
            if "remember" in request:
                adapter.remember(request["remember"], request["memories"])
                _answer(answers, {"seconds": time.perf_counter() - begun})
            else:
                keys = adapter.ask(request["ask"], request["question"], request["top_k"])
                _answer(answers, {"keys": keys, "seconds": time.perf_counter() - begun})
    except Exception as error:  # noqa: BLE001 – whatever it is, the caller goes on
        traceback.print_exc()
        _answer(answers, {"error": " < ".join(_chain(error))})
    finally:
        if adapter is not None:
            adapter.close()
    sys.stderr.flush()
    os._exit(0)  # whatever pools and threads the peer has left behind


def _chain(error: BaseException | None) -> Iterator[str]:
    """The error and what it came from."""
    while error is not None:
        yield f"{type(error).__name__}: {error}".strip().partition("\n")[0]
        error = error.__cause__ or error.__context__


def _answer(answers: Any, value: dict[str, Any]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()
