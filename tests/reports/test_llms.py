"""What users saw of LLMs: a wrong model name that was "ok" for ever, waits that were not kept, schemas
forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from engine.providers import breakers, health, known, llms
from engine.providers.questions import Poignancy
from jiyi.errors import BadReply, LLMUnavailable
from jiyi.settings import get_settings
from tests.misbehaving import Vendor, chat, status, vendor
from workers.ephemeral import environment

QUESTION = Poignancy(agent_id="Mira", text="Pavel's bicycle was stolen")
SEVEN = chat('{"poignancy": 7}')
pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def server() -> Iterator[Vendor]:
    """An LLM's server that nobody has asked before."""
    with vendor() as running, environment(llm=f"compatible:{uuid4().hex}", llm_base_url=running.base_url):
        llms.llm.cache_clear()
        yield running
    llms.llm.cache_clear()


@pytest.fixture
def another_process() -> Callable[[], Any]:
    """The LLM as a process has it that knows only what Valkey does."""

    def make() -> Any:
        for remembered in (breakers.held_until, breakers.in_process, known.in_process):
            remembered.clear()
        llms.llm.cache_clear()
        return llms.llm()

    return make


def seen() -> tuple[str, str]:
    """State and detail of the LLM in health."""
    return next((one.state, one.detail) for one in health.providers(get_settings()) if one.name == "llm")


@pytest.mark.parametrize("code", [400, 404])
def test_a_model_that_refuses_everything_is_failing_in_health_until_it_answers(
    server: Vendor, code: int
) -> None:
    server.otherwise = status(code, "no such model")
    with pytest.raises(LLMUnavailable):
        llms.llm().ask(QUESTION)
    state, detail = seen()
    assert state == "failing"
    assert f"({code})" in detail
    server.otherwise = SEVEN
    assert llms.llm().ask(QUESTION).poignancy == 7
    assert seen()[0] == "ok"


def test_a_text_that_a_filter_refuses_makes_no_failing_model(server: Vendor) -> None:
    server.script(status(400, "data_inspection_failed"))
    with pytest.raises(BadReply, match="filter"):
        llms.llm().ask(QUESTION)
    assert seen()[0] == "ok"


def test_what_one_process_has_learned_of_a_server_all_know(
    server: Vendor, another_process: Callable[[], Any]
) -> None:
    server.script(status(400, "response_format 'json_schema' is not supported"), SEVEN, SEVEN)
    another_process().ask(QUESTION)
    another_process().ask(QUESTION)
    forms = [request.body["response_format"]["type"] for request in server.requests]
    assert forms == ["json_schema", "json_object", "json_object"]


def test_a_wait_that_a_server_asks_for_is_kept_by_all_processes(
    server: Vendor, another_process: Callable[[], Any]
) -> None:
    server.otherwise = status(429, retry_after="900")
    for _ in range(2):
        with pytest.raises(LLMUnavailable) as caught:
            another_process().ask(QUESTION)
        assert 800 < caught.value.retry_after <= 900
    assert len(server.requests) == 1
