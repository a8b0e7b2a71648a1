"""LLMs: what answers questions about memories. One protocol, chosen by ``JIYI_LLM``.

Rerankers: models that read a question together with each memory and say how relevant the memory is. Chosen by
``JIYI_RERANKER``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import httpx2

from engine.providers.llm_prompts import note_context
from engine.providers.questions import A, Question
from engine.providers.spec import Endpoint, Spec, parse, resolve
from jiyi.errors import SettingsError
from jiyi.once import once
from jiyi.settings import Settings, get_settings

log = logging.getLogger(__name__)
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


#: Seconds that a server has to say what it serves, and after which it is asked once more.
SECONDS, ASKED_AGAIN = 5.0, 3_600.0
#: Vendors of models that one runs oneself, whose contexts may be smaller than a prompt.
LOCAL = frozenset({"compatible", "ollama"})
#: What servers call it in their lists of models: vLLM, LM Studio, OpenRouter, llama.cpp (there in ``meta``).
FIELDS = "max_model_len loaded_context_length max_context_length context_length n_ctx n_ctx_train".split()
#: A smaller number is something else.
LEAST = 256

_asking = Lock()
_asked_at = float("-inf")


def ask_context() -> None:
    """Note how many tokens the LLM's server says that it reads. Asks it once an hour, and never raises."""
    global _asked_at  # noqa: PLW0603 – one of each process
    settings = get_settings()
    if settings.llm_context or settings.llm.partition(":")[0] not in LOCAL:
        note_context(0)
        return
    with _asking:
        if time.monotonic() - _asked_at > ASKED_AGAIN:
            note_context(_ask_server())
            _asked_at = time.monotonic()


def _ask_server() -> int:
    from engine.providers.guarded import NOT_REMEMBERED  # the SDK takes a second to load

    endpoint = llm_endpoint(get_settings())
    headers = dict(NOT_REMEMBERED)
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key.get_secret_value()}"
    address = f"{endpoint.base_url.rstrip('/')}/models"
    try:
        answer = httpx2.get(address, headers=headers, timeout=SECONDS).json()
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        log.info("the LLM's server does not say how much it reads: %s", type(error).__name__)
        return 0
    return context_in(answer, endpoint.spec.model)


def context_in(models: Any, model: str) -> int:
    """What a list of models says of one of them, or of the only one there is; 0 if nothing."""
    rows = models.get("data") if isinstance(models, dict) else None
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    matches = [row for row in rows if row.get("id") == model] or (rows if len(rows) == 1 else [])
    for row in matches:
        for values in (row, row.get("meta")):
            sizes = [values.get(field) for field in FIELDS] if isinstance(values, dict) else []
            numbers = [value for value in sizes if isinstance(value, int) and value >= LEAST]
            if numbers:
                return min(numbers)
    return 0


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
