"""What tests of providers share: a server that misbehaves on request, no keys, and nothing known of vendors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.providers import breakers, embedder_specs
from engine.providers.embedders import embedder, embedder_of, forget_questions
from engine.providers.llm_prompts import Usage, on_usage
from engine.providers.llms import llm, reranker
from jiyi.protocol.providers import PRESETS, BreakerState
from jiyi.settings import Settings
from tests import misbehaving

KEYS = [name for preset in PRESETS.values() for name in preset.key_variables]
PROXIES = [name for kind in ("http", "https", "all") for name in (f"{kind}_proxy", f"{kind}_proxy".upper())]
OTHERS = ["TAVILY_API_KEY", embedder_specs.OTHER_PROVIDER, embedder_specs.OTHER_KEY]


@pytest.fixture
def used() -> Iterator[list[Usage]]:
    heard: list[Usage] = []
    on_usage(heard.append)
    yield heard
    on_usage(None)


def forget() -> None:
    for made in (llm, reranker, embedder, embedder_of):
        made.cache_clear()
    forget_questions()
    misbehaving.forget_vendors()


@pytest.fixture(autouse=True)
def _nothing_known(configure: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Breakers are of this process only, whatever else runs in this session."""
    for name in [*KEYS, *PROXIES, *OTHERS, "JIYI_EMBEDDER"]:
        monkeypatch.delenv(name, raising=False)
    configure(redis_url="")
    on_usage(None)  # a program that has imported the tasks notes it in the database
    forget()
    yield
    forget()


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What the breakers of all workers know: Valkey has it, and nothing of it is here."""

    def know(**fields: Any) -> None:
        state = BreakerState(**{"state": breakers.CLOSED, "failures": 0, **fields})
        monkeypatch.setattr(breakers, "read_state", lambda _name: state)

    return know


@pytest.fixture
def server() -> Iterator[misbehaving.Vendor]:
    with misbehaving.vendor() as running:
        yield running
