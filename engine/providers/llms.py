"""LLMs: what answers questions about memories. One protocol, chosen by ``JIYI_LLM``.

Rerankers: models that read a question together with each memory and say how relevant the memory is. Chosen by
``JIYI_RERANKER``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.providers.questions import A, Question
from engine.providers.spec import Endpoint, Spec, parse, resolve
from jiyi.errors import SettingsError
from jiyi.once import once
from jiyi.settings import Settings, get_settings

LLM_SETTING = "JIYI_LLM"
#: The value of ``JIYI_LLM`` that needs no model.
RULES = "rules"


#: In time-outs: as long as another question before it, all its tries, a late last one, one to probe.
SLOWEST_QUESTION = 6


def slower_seconds(settings: Settings) -> int:
    """How much longer than with the default time-out the slowest question, and so work, may take."""
    default: float = Settings.model_fields["llm_timeout"].default
    return 0 if settings.llm == RULES else int(SLOWEST_QUESTION * max(0.0, settings.llm_timeout - default))


class LLM(Protocol):
    """Thread-safe. One that is asked over a network has an ``endpoint`` as well, where that is."""

    @property
    def model(self) -> str:
        """Kept as provenance, with the prompt's :func:`~engine.providers.llm_prompts.signature`."""
        ...

    def ask(self, question: Question[A]) -> A:
        """An answer that fits the question's schema and has no ``problems``.

        Raises:
            LLMUnavailable: the provider cannot be reached, is too slow or refuses: the work waits.
            BadReply: the reply does not fit, even after the LLM was asked to correct it.
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

    return OpenAICompatible(llm_endpoint(settings), settings)


def llm_endpoint(settings: Settings) -> Endpoint:
    """Where ``JIYI_LLM`` is, unless that is ``rules``. Raises as :func:`llm`."""
    spec = parse(settings.llm, LLM_SETTING, local=[RULES])
    return resolve(spec, "chat", LLM_SETTING, settings.llm_base_url, settings.llm_api_key)


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


RERANKER_SETTING = "JIYI_RERANKER"
#: The value of ``JIYI_RERANKER`` that needs no model.
OFF = "off"
#: The one vendor: whatever speaks the protocol at the address that is set.
VENDOR = "compatible"
#: Documents of one call: rerankers take milliseconds for each.
MOST_DOCUMENTS = 50


class Reranker(Protocol):
    """Thread-safe."""

    @property
    def model(self) -> str:
        """Its name in answers."""
        ...

    def relevance(self, query: str, documents: Sequence[str], seconds: float) -> list[float]:
        """How relevant each document is to the query, on the model's own scale: comparable within one answer
        only.

        Args:
            query: of a long one the end is read, since a dialogue ends with the query.
            documents: ``MOST_DOCUMENTS`` at most; of a long one the beginning is read.
            seconds: for the one try there is.

        Raises:
            RerankerUnavailable: it cannot be reached, is too slow, refuses, or answers something unusable.
        """
        ...


def reranker_endpoint(settings: Settings) -> Endpoint:
    """Where ``JIYI_RERANKER`` is, unless that is ``off``. Raises :class:`SettingsError`."""
    model, at, address = settings.reranker.partition("@")
    if not at:
        raise SettingsError(
            f"{RERANKER_SETTING}: there is none; write model@address, like "
            f"bge-reranker-v2-m3@http://host:8000/v1"
        )
    return resolve(Spec(VENDOR, model), "rerank", RERANKER_SETTING, address)


@once
def reranker() -> Reranker:
    """This process's reranker. Raises :class:`SettingsError` where none is set, or no model or address."""
    from engine.providers.remote import RemoteReranker  # the SDK takes a second to load

    return RemoteReranker(reranker_endpoint(get_settings()))
