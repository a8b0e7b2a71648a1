"""The wheel of ``jiyi`` works in an environment of its own, with the base dependencies alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.install import EDITABLE

ROOT = Path(__file__).resolve().parents[2]
#: Modules that need an extra, and which.
FRAMEWORKS = (
    "agent_framework anthropic autogen crewai google_adk hermes langgraph llama_index mcp openai_agents"
    " pydantic_ai".split()
)
INTEGRATIONS = {
    *(f"jiyi.integrations.{name}" for name in (*FRAMEWORKS, "mcp_batches")),
    *(f"jiyi.proxy.{name}" for name in ("access", "app", "bodies", "memory")),
    "jiyi.cli.listening",
}
BROKER = {
    *(f"jiyi.client.{name}" for name in ("broker", "caller", "publishing")),
    "jiyi.protocol.wire.broker",
}
IMPORT_ALL = """
import importlib.util, json, pkgutil
import jiyi
missing = {}
for module in pkgutil.walk_packages(jiyi.__path__, "jiyi."):
    if module.name != "jiyi.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            missing[module.name] = error.name
service = "models tasks workers web bench tests tools sqlalchemy flask".split()
print(json.dumps([missing, [name for name in service if importlib.util.find_spec(name)]]))
"""
ASK_NOBODY = """
import sys
from jiyi import Client, JiyiError
from jiyi.settings import Settings
heavy = [name for name in sys.modules if name.partition(".")[0] in ("celery", "kombu", "redis", "numpy") or name == "engine.providers"]
assert not heavy, heavy
nobody = "redis://127.0.0.1:1/0"
with Client("g", settings=Settings(broker_url=nobody, redis_url=nobody, request_timeout=0.4), **dict({})) as client:
    try:
        client.observe("klaus", "Klaus reads", poignancy=4)
    except JiyiError as error:
        print(error.code)
"""


def distributions(*extras: str) -> Iterator[Distribution]:
    """What the base dependencies and those of extras bring, as it is installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [
        *project["dependencies"],
        *(text for extra in extras for text in project["optional-dependencies"][extra]),
    ]
    wanted = [Requirement(text) for text in texts]
    seen: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        name, marker = canonicalize_name(requirement.name), requirement.marker
        if name not in seen and (marker is None or marker.evaluate({"extra": ""})):
            seen.add(name)
            installed = distribution(requirement.name)
            yield installed
            wanted += [Requirement(text) for text in installed.requires or []]


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def copied(place: Path) -> Path:
    """What the wheel is built from: what an earlier build left in the checkout must not be in it."""
    shutil.copytree(ROOT / "jiyi", place / "jiyi", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    return place


def installed(place: Path, *what: str) -> Path:
    """An interpreter of an environment that has this, and nothing else."""
    venv.create(place / "env", with_pip=False)
    interpreter = place / "env" / "bin" / "python"
    command = [*PIP, "--python", str(interpreter), "install", "--no-deps", *what]
    subprocess.run(command, check=True, timeout=280, env=alone())
    return interpreter


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel and links to its base dependencies, and nothing else; those of
    ``broker`` lie beside it.
    """
    place = tmp_path_factory.mktemp("wheel")
    wheels = ["wheel", "--no-deps", "--wheel-dir", str(place), str(copied(place / "source"))]
    subprocess.run([*PIP, *wheels], check=True, timeout=280)
    (wheel,) = place.glob("jiyi-*.whl")
    interpreter = installed(place, "--no-index", "--ignore-installed", str(wheel))
    link(distributions(), place / "base")
    link(distributions("broker"), place / "broker")
    (site,) = (place / "env").glob("lib/python*/site-packages")
    (site / "base.pth").write_text(f"{place / 'base'}\n")
    return interpreter


def link(installed: Iterator[Distribution], folder: Path) -> None:
    """Links to the files of distributions, in a folder of their own."""
    folder.mkdir()
    for each in installed:
        for name in {file.parts[0] for file in each.files or []} - {"..", "__pycache__"}:
            if not (folder / name).exists():
                (folder / name).symlink_to(Path(str(each.locate_file(name))))


@pytest.mark.timeout(400)
def test_a_script_beside_a_checkout_called_jiyi_finds_the_package_in_it(tmp_path: Path) -> None:
    """Not the checkout itself, which would be an empty namespace of the same name."""
    checkout = copied(tmp_path / "jiyi")
    interpreter = installed(tmp_path, *EDITABLE, str(checkout))
    script = tmp_path / "script.py"
    script.write_text("import jiyi; print(jiyi.__file__)")
    command = [str(interpreter), str(script)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=alone())
    assert done.stdout.strip() == str(checkout / "jiyi" / "__init__.py")


def alone() -> dict[str, str]:
    """This environment, in which Python finds no checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(python: Path, code: str, *, broker: bool = False) -> str:
    if broker:
        code = f"import sys; sys.path.append({str(python.parents[2] / 'broker')!r})\n{code}"
    command = [str(python), "-I", "-c", code]
    done = subprocess.run(
        command, cwd=python.parent, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("broker", [False, True])
def test_every_module_but_those_of_an_extra_can_be_imported_and_none_of_the_service(
    python: Path, broker: bool
) -> None:
    missing, there = json.loads(run(python, IMPORT_ALL, broker=broker))
    assert set(missing) == INTEGRATIONS | (set() if broker else BROKER)
    assert there == []


def test_a_client_is_light_and_says_that_nobody_is_there_or_that_the_broker_needs_its_extra(
    python: Path,
) -> None:
    over_http = f"url='http://127.0.0.1:1', key='jiyi_{'k' * 12}_{'s' * 43}'"
    assert run(python, ASK_NOBODY.format(over_http)) == "broker_unavailable"
    assert run(python, ASK_NOBODY.format(""), broker=True) == "broker_unavailable"
    code = "from jiyi import Client, JiyiError\ntry:\n    Client('g')\nexcept JiyiError as error:\n    print(error)"
    [wheel] = python.parents[2].glob("jiyi-*.whl")
    assert f"pip install '{wheel}[broker]'" in run(python, code)


def test_the_command_line_says_what_needs_the_checkout(python: Path) -> None:
    def jiyi(*arguments: str) -> tuple[int, str, str]:
        command = [str(python.with_name("jiyi")), *arguments]
        done = subprocess.run(
            command, cwd=python.parent, env=alone(), capture_output=True, text=True, check=False, timeout=200
        )
        return done.returncode, done.stdout, done.stderr

    code, _, said = jiyi("up")
    assert (code, said.count("\n")) == (1, 1)
    assert "checkout" in said
    code, helped, _ = jiyi("--help")
    assert code == 0
    assert "retrieve" in helped
