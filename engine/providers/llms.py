"""LLMs: what answers questions about memories. One protocol, chosen by ``JIYI_LLM``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.providers.questions import A, Question
from engine.providers.spec import Endpoint, parse, resolve
from jiyi.once import once
from jiyi.settings import Settings, get_settings

SETTING = "JIYI_LLM"
#: The value of ``JIYI_LLM`` that needs no model.
RULES = "rules"


class LLM(Protocol):
    """Thread-safe."""

    @property
    def model(self) -> str:
        """Kept with everything that is made from its answers, with the prompt's :func:`~engine.providers.llm_prompts.signature`."""
        ...

    def ask(self, question: Question[A]) -> A:
        """An answer that fits the question's schema and has no ``problems``.

        Raises:
            LLMUnavailable: the provider cannot be reached, is too slow or refuses: the work waits.
            BadReply: what came back does not fit, even after it was told so.
        """
        ...


@once
def llm() -> LLM:
    """This process's LLM.

    Raises:
        SettingsError: ``JIYI_LLM`` names no provider, or lacks a model or an address.
    """
    settings = get_settings()
    if settings.llm == RULES:
        from engine.rules.provider import Rules

        return Rules()
    from engine.providers.openai_compatible import OpenAICompatible  # the SDK takes a second to load

    return OpenAICompatible(endpoint(settings), settings)


def endpoint(settings: Settings) -> Endpoint:
    """Where ``JIYI_LLM`` is, unless that is ``rules``. Raises as :func:`llm`."""
    return resolve(parse(settings.llm, SETTING, local=[RULES]), "chat", SETTING, settings.llm_base_url, settings.llm_api_key)


@dataclass(frozen=True, slots=True)
class ForGroup:
    """An LLM whose questions count as one group's, for callers whose questions do not know their group."""

    provider: LLM
    group_id: str

    @property
    def model(self) -> str:
        return self.provider.model

    def ask(self, question: Question[A]) -> A:
        """As the provider does."""
        return self.provider.ask(question.model_copy(update={"group_id": self.group_id}))
