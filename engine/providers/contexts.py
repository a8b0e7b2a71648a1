"""How many tokens the LLM reads in one question: as configured, or as its server says of the model."""

from __future__ import annotations

import logging
import time
from threading import Lock
from typing import Any

import httpx2

from engine.providers.llms import llm_endpoint
from jiyi.settings import get_settings

log = logging.getLogger(__name__)
#: Seconds that a server has to say what it serves, and after which it is asked once more.
SECONDS, ASKED_AGAIN = 5.0, 3_600.0
#: Vendors of models that one runs oneself, whose contexts may be smaller than a prompt.
LOCAL = frozenset({"compatible", "ollama"})
#: What servers call it in their lists of models: vLLM, LM Studio, OpenRouter, llama.cpp (there in ``meta``).
FIELDS = "max_model_len loaded_context_length max_context_length context_length n_ctx n_ctx_train".split()
#: A smaller number is something else.
LEAST = 256

_lock = Lock()
_said: tuple[int, float] = (0, float("-inf"))


def asked_context() -> int:
    """Tokens; 0 if the server does not say. Asks it once an hour, and never raises."""
    global _said  # noqa: PLW0603 – one of each process
    settings = get_settings()
    if settings.llm_context or settings.llm.partition(":")[0] not in LOCAL:
        return settings.llm_context
    with _lock:
        if time.monotonic() - _said[1] > ASKED_AGAIN:
            _said = _ask(), time.monotonic()
        return _said[0]


def _ask() -> int:
    from engine.providers.guarded import NOT_REMEMBERED  # late: the SDK takes a second to load

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
