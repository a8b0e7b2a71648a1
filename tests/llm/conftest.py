"""A real LLM, and a log of what goes over the wire to it.

``make test-llm`` starts llama.cpp with SmolLM2-135M; ``JIYI_TEST_LLM=http://host:8000/v1`` asks another
OpenAI-compatible server, with ``JIYI_TEST_LLM_MODEL`` as the model's name.
"""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench.support import smollm
from engine.providers import llms
from jiyi.settings import Settings
from tests.misbehaving import Reply, Request, Vendor, forget_vendors, vendor
from tests.shared import share
from tests.unit.conftest import configure
from tests.unit.providers.conftest import used

__all__ = ["configure", "used"]

pytest_configure = share

# Read when the tests are collected: none of them has settings from outside.
OTHER, OTHER_MODEL = os.environ.get("JIYI_TEST_LLM", ""), os.environ.get("JIYI_TEST_LLM_MODEL", "smollm2")
#: Seconds of one question, and of a test: the machine may do other things.
SECONDS, TEST_SECONDS = 300, 1_200
#: Tokens of an answer: the questions here want a sentence.
TOKENS = 150


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.llm)
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@dataclass
class Model:
    """A server with a model, by ``start`` and ``stop``."""

    address: str = OTHER
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> None:
        if not OTHER:
            self.stop()
            self._process, self.address = smollm.start()

    def stop(self) -> None:
        if self._process is not None:
            smollm.stop(self._process)
            self._process = None

    def answer(self, request: Request, body: bytes) -> Reply:
        """As the server does; 502 while it is away."""
        asked = urllib.request.Request(
            f"{self.address}/{request.path.rpartition('/v1/')[2]}", body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(asked, timeout=SECONDS) as response:
                return Reply(
                    response.status, response.read(), {"Content-Type": response.headers["Content-Type"]}
                )
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.read(), {"Content-Type": "application/json"})
        except OSError:
            return Reply(502, b"{}")


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    if not OTHER and not smollm.is_installed():
        pytest.skip("make test-llm installs llama.cpp and a model")
    served = Model()
    try:
        served.start()
        yield served
    finally:
        served.stop()


@pytest.fixture
def wire(model: Model) -> Iterator[Vendor]:
    """A server before the model, which keeps what it is asked and what is answered."""
    import json

    with vendor() as before:
        before.replies = []  # type: ignore[attr-defined]

        def pass_on(request: Request) -> Reply:
            reply = model.answer(request, json.dumps(request.body).encode())
            before.replies.append(reply)  # type: ignore[attr-defined]
            return reply

        before.otherwise = pass_on
        forget()
        yield before
        forget()


def forget() -> None:
    llms.llm.cache_clear()
    forget_vendors()


@pytest.fixture
def use(wire: Vendor, configure: Callable[..., Settings]) -> Callable[..., llms.LLM]:
    """The LLM behind the wire, by nothing but its address."""

    def make(**settings: Any) -> llms.LLM:
        spec = f"compatible:{OTHER_MODEL}"
        configure(
            llm=spec,
            llm_base_url=wire.base_url,
            llm_timeout=SECONDS,
            llm_max_tokens=TOKENS,
            redis_url="",
            **settings,
        )
        llms.llm.cache_clear()
        return llms.llm()

    return make
