"""Each adapter with the real package, over HTTP, in a program of its own.

What does not go with the service's packages has an environment of its own. There its block of
``docs/integrations.md`` is run, too: ``docs/test_snippets.py`` leaves it out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).with_name("programs")
#: Module of ``jiyi.integrations`` → the package's own module, where it is among those for development.
HERE = {"pydantic_ai": "pydantic_ai", "agent_framework": "agent_framework"}
#: The others: they are large, or want other versions of what the service uses.
ELSEWHERE = ("openai_agents", "llama_index", "google_adk", "autogen", "crewai")

Runs = Callable[[Path, list[str]], None]


@pytest.fixture
def runs(service: str, unlimited_web: int, api_key: Callable[..., str]) -> Runs:
    """Runs Python with the address of the running service and a key."""
    key = api_key(service, "publish", "read", "admin")
    address = f"http://127.0.0.1:{unlimited_web}"
    environment = {
        **os.environ,
        "JIYI_URL": address,
        "JIYI_KEY": key,
        "PYTHONPATH": str(ROOT),
        "JIYI_REQUEST_TIMEOUT": "60",
    }

    def perform(python: Path, arguments: list[str]) -> None:
        arguments = [
            one.replace("http://127.0.0.1:8765", address).replace("jiyi_…", key) for one in arguments
        ]
        done = subprocess.run(
            [python, *arguments], env=environment, capture_output=True, text=True, timeout=250, check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

    return perform


@pytest.mark.parametrize("name", HERE)
def test_beside_the_service(name: str, runs: Runs) -> None:
    if find_spec(HERE[name]) is None:
        pytest.skip(f"needs the extra `{name}`")
    runs(Path(sys.executable), [str(PROGRAMS / f"use_{name}.py")])


@pytest.mark.long
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("name", ELSEWHERE)
def test_in_an_environment_of_its_own(name: str, runs: Runs, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][name.replace("_", "-")]]
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted],
        check=True,
        timeout=1_000,
    )
    runs(python, [str(PROGRAMS / f"use_{name}.py")])
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    blocks = re.findall(
        rf"^```python\n((?:(?!```).)*jiyi\.integrations\.{name} (?:(?!```).)*)^```$",
        page,
        re.MULTILINE | re.DOTALL,
    )
    for block in blocks:  # some frameworks share a table there
        runs(python, ["-c", block])
