"""LLMs: what answers questions about memories. One protocol, chosen by ``JIYI_LLM``."""

from __future__ import annotations

from typing import Protocol

from jiyi.llms.questions import A, Question


class LLM(Protocol):
    """Thread-safe."""

    #: Kept with everything that is made from its answers.
    model: str

    def ask(self, question: Question[A]) -> A:
        """An answer that fits the question's schema and has no ``problems``.

        Raises:
            LLMUnavailable: the provider cannot be reached, is too slow or refuses: the work waits.
            BadReply: what came back does not fit, even after it was told so.
        """
        ...
