"""``jiyi reembed`` beside a running service: the benchmark, in small."""

from __future__ import annotations

import pytest
from rich.console import Console

from bench.reembed import run
from tests.shared import begun_by_forking, few_processes, without_fsync
from workers import ephemeral


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_running_service_moves_while_it_is_asked_and_told_and_the_command_is_killed() -> None:
    with begun_by_forking(), few_processes(), without_fsync(), ephemeral.environment(work_lease_seconds="4"):
        result = run(nodes=200, to="hashing:64", kills=1, console=Console(stderr=True), ask_every=0.1)
    assert (result["errors"], result["short"], result["wrong"]) == (0, 0, 0), result
    assert result["told_meanwhile"] > 0
    assert result["by_model"].keys() == {"hashing-256", "hashing-64"}
