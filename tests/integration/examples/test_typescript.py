"""The TypeScript example: its client is generated from the live service's document, compiled, and run; the
document passes a linter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jiyi import Client
from jiyi.polling import poll
from tests.integration.proxy.test_proxy import turns

SOURCE = Path(__file__).resolve().parents[3] / "examples" / "typescript"

pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures(
        "service"
    ),  # its workers are running: after the tests that do their work themselves
    pytest.mark.skipif(
        shutil.which("node") is None or shutil.which("npm") is None, reason="needs node and npm"
    ),
    pytest.mark.timeout(600),  # of the registry's, mostly
    pytest.mark.xdist_group("typescript"),  # one installation for all of them
]


@pytest.fixture(scope="module")
def address(unlimited_web: int, _workers: None) -> str:
    return f"http://127.0.0.1:{unlimited_web}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example beside its packages, in a folder of its own."""
    folder = tmp_path_factory.mktemp("typescript")
    for path in SOURCE.iterdir():
        if path.is_file() and path.name != "jiyi.d.ts":
            shutil.copy(path, folder)
    run(folder, "npm", "ci", "--no-audit", "--no-fund")
    return folder


def run(folder: Path, *command: str, **env: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_generated_client_is_compiled_and_does_what_it_says(
    project: Path, address: str, api_key: Callable[..., str], group: str
) -> None:
    run(project, "npm", "run", "generate", JIYI_URL=address)
    run(project, "npm", "run", "check")
    said = run(
        project, "node", "quickstart.mjs", JIYI_URL=address, JIYI_KEY=api_key(group, "publish", "read")
    )
    assert said.splitlines() == [
        "told: 3 memories",
        "What does Klaus read? → Klaus is reading a book on gentrification",
        "论文什么时候交？ → 克劳斯答应周五之前把论文交给玛丽亚",
    ]


def test_what_is_wrong_is_said(project: Path, address: str) -> None:
    for key, sentence in (("", "JIYI_KEY: set it to an API key"), ("jiyi_wrong", "401: ")):
        env = {**os.environ, "JIYI_URL": address, "JIYI_KEY": key}
        done = subprocess.run(
            ["node", "quickstart.mjs"],
            cwd=project,
            env=env,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode != 0
        assert sentence in done.stderr


def test_the_document_passes_a_linter_without_a_warning(project: Path, address: str) -> None:
    said = run(project, "npm", "run", "lint", JIYI_URL=address)
    assert "Your API description is valid" in said
    assert "warning" not in said.lower().replace("deprecation warning", ""), said


def test_models_of_the_ai_sdk_know_what_another_session_said(
    project: Path, address: str, api_key: Callable[..., str], group: str
) -> None:
    env = {"JIYI_URL": address, "JIYI_KEY": api_key(group, "publish", "read")}
    assert run(project, "node", "memory.test.mjs", "I am allergic to peanuts.", **env) == "Noted.\n"
    assert sorted(turns(group, "ai-sdk", 2)) == ["I am allergic to peanuts.", "Noted."]
    with Client(group) as client:
        client.end_session("ai-sdk", "s-1")

    def asked() -> str:
        return run(project, "node", "memory.test.mjs", "", "What am I allergic to?", **env)

    said = poll(asked, lambda said: "peanuts" in said, 60.0, str)
    assert said.startswith("You said so. ")
    assert said.index("peanuts") < said.index("What am I allergic to?")
    away = run(project, "node", "memory.test.mjs", "Hello", **{**env, "JIYI_URL": "http://127.0.0.1:1"})
    assert "Noted." in away
    assert "not remembered" in away
