"""The Dockerfile and the compose file, read by the programs that know them; neither needs Docker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jiyi.settings import Settings
from workers import procfile

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
PROFILES = ("rabbitmq", "proxy")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="their wheels are for Linux"),
]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file as Docker's own program understands it, with all profiles."""
    command = [
        str(BIN / "docker-compose"),
        *(f"--profile={name}" for name in PROFILES),
        "config",
        "--format=json",
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "JIYI_SECRET_KEY": "s" * 32}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    services: dict[str, Any] = json.loads(done.stdout)
    return services


def test_the_linter_has_nothing_to_say_against_the_dockerfile() -> None:
    done = subprocess.run(
        [str(BIN / "hadolint"), "Dockerfile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_checked_and_runs_without_rights() -> None:
    last = (ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    assert "\nUSER 10001:10001\n" in last
    assert 'CMD ["python", "-m", "workers.alive"]' in last
    assert "org.opencontainers.image.licenses" in last
    assert "pip install" not in last  # what builds is not in what runs


def test_compose_runs_each_process_confined_bounded_and_on_the_same_settings(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(procfile.commands()) <= set(services)
    known = {f"JIYI_{name.upper()}" for name in Settings.model_fields}
    for name in (*procfile.commands(), "migrate"):
        service = services[name]
        assert (service["read_only"], service["cap_drop"], service["tmpfs"]) == (True, ["ALL"], ["/tmp"])
        assert int(service["mem_limit"]) > 0
        assert {key for key in service["environment"] if key.startswith("JIYI_")} <= known
        if name != "migrate":
            assert service["command"] == ["python", "-m", "workers.procfile", name]
            assert "healthcheck" not in service  # the image's
    for name in ("postgres", "valkey", "rabbitmq", "proxy"):
        assert services[name]["healthcheck"]["test"]
        assert int(services[name]["mem_limit"]) > 0


def test_compose_backs_up_into_a_volume_and_knows_rabbitmq(compose: dict[str, Any]) -> None:
    services = compose["services"]
    (volume,) = services["upkeep"]["volumes"]
    assert (volume["source"], volume["target"]) == (
        "backups",
        services["beat"]["environment"]["JIYI_BACKUP_DIR"],
    )
    assert "JIYI_JOBS_OFF" not in services["beat"]["environment"]
    assert services["intake"]["depends_on"]["rabbitmq"]["required"] is False
    assert services["rabbitmq"]["profiles"] == ["rabbitmq"]
