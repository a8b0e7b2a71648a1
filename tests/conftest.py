"""What every test needs: settings of its own, whatever the machine has set or is running."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from jiyi.settings import get_settings


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("JIYI_")]:
        del os.environ[name]
    os.environ["JIYI_HOME"] = str(tmp_path_factory.mktemp("home"))
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.fixture
def group() -> str:
    """A group of its own for each test: tests share a database, never a tenant."""
    return f"test-{uuid.uuid4().hex[:12]}"
