"""What every test needs: settings of its own, whatever the machine has set or is running."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jiyi.settings import get_settings

# In CI the examples are the same in each run, so that a failure is one of the change that is tested. What
# Hypothesis finds elsewhere is pinned as an example of its test.
settings.register_profile("ci", settings.get_profile("ci"), derandomize=True)
# Elsewhere, too, an example may take as long as a busy machine lets it.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if "CI" in os.environ else "here")

gc.disable()  # what is imported until the first test begins stays for all of them


def pytest_addoption(parser: pytest.Parser) -> None:
    """The API is fuzzed for as long as one likes: ``pytest tests/integration/web/test_api_schema.py
    --fuzz-minutes 10``.
    """
    parser.addoption(
        "--fuzz-minutes",
        type=float,
        default=0.0,
        help="minutes that the API is sent random requests; 0: some fixed ones",
    )


def pytest_configure(config: pytest.Config) -> None:
    """A folder of its own for each run: runs that share pytest's take away each other's right to pass through
    it.
    """
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="jiyi-pytest-")
        config.stash[_OURS] = Path(config.option.basetemp)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Garbage is looked for among what tests make: modules, tests and schemas are a million objects, and
    stay.
    """
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    folder = session.config.stash.get(_OURS, None)
    if folder is not None and exitstatus == pytest.ExitCode.OK:  # else its logs tell why
        shutil.rmtree(folder, ignore_errors=True)


_OURS = pytest.StashKey[Path]()


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """None but the subjects that are on: ``JIYI_SUBJECTS=none pytest tests/unit/memory …`` tests the core by
    itself.
    """
    for name in [name for name in os.environ if name.startswith("JIYI_") and name != "JIYI_SUBJECTS"]:
        del os.environ[name]
    os.environ["JIYI_HOME"] = str(tmp_path_factory.mktemp("home"))
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.fixture
def group() -> str:
    """A group of its own for each test: tests share a database, never a tenant."""
    return f"test-{uuid.uuid4().hex[:12]}"
