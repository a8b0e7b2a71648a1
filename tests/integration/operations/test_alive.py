"""workers.alive: health checks of a running service, and of one whose Valkey is away."""

from __future__ import annotations

import pytest

from jiyi.settings import get_settings
from tests.integration.waiting import until
from workers import alive, ephemeral, procfile


def test_who_lives_is_well_and_who_is_silent_is_not(service: str, unlimited_web: int) -> None:
    settings = get_settings()
    for name in ("all", "intake", "beat"):
        until(lambda name=name: alive.problem(name, settings) == "", 60)
    assert alive.problem("web", settings.model_copy(update={"web_port": unlimited_web})) == ""
    nobody = settings.model_copy(update={"web_port": ephemeral.free_port()})
    assert alive.problem("web", nobody).startswith("the web does not answer: ")
    assert alive.problem("embedding", settings) == "the worker embedding of this host is silent"


def test_what_is_not_known_restarts_nobody(capsys: pytest.CaptureFixture[str], database: object) -> None:
    with ephemeral.environment(redis_url="redis://127.0.0.1:1/0"):
        assert alive.main(["embedding"]) == 0
    assert capsys.readouterr().err.startswith("not known: ")
    assert alive.main(["a", "b"]) == 2


def test_a_container_is_known_by_its_first_process(tmp_path, monkeypatch, database):
    for name, command in procfile.commands().items():
        assert alive.first_process(b"\0".join(part.encode() for part in command) + b"\0") == name
    (tmp_path / "cmdline").write_bytes(b"python\0-m\0workers.migrate\0")
    monkeypatch.setattr(alive, "FIRST", tmp_path / "cmdline")
    assert alive.main([]) == 0
