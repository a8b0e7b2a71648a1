"""Types of stores that a test registers are gone after it."""

from __future__ import annotations

import pytest

from jiyi.stores import registry


@pytest.fixture
def types_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_TYPES", dict(registry.store_types()))
