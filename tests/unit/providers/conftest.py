"""What tests of providers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.providers.llm_prompts import Usage, on_usage


@pytest.fixture
def used() -> Iterator[list[Usage]]:
    heard: list[Usage] = []
    on_usage(heard.append)
    yield heard
    on_usage(None)
