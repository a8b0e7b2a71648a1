"""Every snippet of both READMEs and docs/ is run as it stands, against a service with the sample diary:
Python, shell, curl.

Only addresses, keys and ids that a reader has to put in are put in here. What cannot be run in a test is
named in ``ELSEWHERE``, with where it is, and is at least a command that there is, with options that it has.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from typer.main import get_command

from jiyi import Client
from jiyi.cli.app import Later, app
from workers.demo import GROUP

pytestmark = pytest.mark.xdist_group("snippets")  # one web and one diary for all of them

ROOT = Path(__file__).resolve().parents[3]
PAGES = [*ROOT.glob("README*.md"), *sorted((ROOT / "docs").glob("*.md"))]
#: Of this interpreter: ``jiyi`` and ``python`` of the snippets.
BIN = Path(sys.executable).parent
SECONDS = 200
#: Of a terminal, unless somebody makes it wider.
COLUMNS = 80
#: Seconds after which a stream, which does not end by itself, is let go.
STREAM_SECONDS = 2
#: Beginnings of commands that are tried elsewhere, or nowhere, and why.
ELSEWHERE = {
    "make ": "workers/test_up.py starts it",
    "jiyi up": "workers/test_up.py starts it",
    "pip install": "test_wheel.py installs it",
    "python -m bench.": (
        "takes minutes, and data that are not part of this; docs/benchmarks.md has its results"
    ),
    "python -m tools.": "takes minutes, and writes what is shipped; unit/tools tries it on few rows",
    "python -m alembic": "db/test_migrations.py",
    "jiyi keys rotate": "needs the id of a key; accounts/test_keys.py",
    "jiyi keys revoke": "needs the id of a key; accounts/test_keys.py",
    "jiyi people": "asks for passwords, and changes who may sign in; accounts/test_keys.py",
    "jiyi erasure ": "erases what the other snippets need; erasure/test_erasure.py",
    "jiyi memory why ": "needs the id of a thought; reflection/test_reasons.py",
    "jiyi doctor": (
        "its exit status tells of the whole deployment, which other tests leave dead letters in;"
        " reports/test_operations.py"
    ),
    "jiyi dead_letters ": "needs a dead letter; client/test_cli.py",
    "jiyi reembed": "moves the whole deployment; operations/test_reembedding.py",
    "jiyi backup": "operations/test_backup.py",
    "jiyi restore": "operations/test_backup.py",
    "jiyi import stanford": "needs the original's data; client/test_cli.py",
    "jiyi import jsonl bad.jsonl": "a file that is wrong; unit/client/test_cli.py",
    "jiyi reflect": "takes the LLM's time; reflection/test_reflecting.py",
}
#: Frameworks whose blocks are run in environments of their own, by frameworks/test_frameworks.py.
OWN_ENVIRONMENTS = re.compile(r"jiyi\.integrations\.(?:openai_agents|llama_index|google_adk|autogen|crewai) ")
#: Python blocks that are no programs.
NO_PROGRAMS = {"architecture.md": "pieces of a recipe, which memory/test_columns.py follows"}


@dataclass(frozen=True)
class Snippet:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def snippets(*languages: str) -> list[Snippet]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if match[1] in languages:
                found.append(Snippet(page.name, text[: match.start()].count("\n") + 1, match[1], match[2]))
    return found


@pytest.fixture(scope="module")
def served(_workers: None, unlimited_web: int) -> int:
    """The port of the web of a service that has the sample diary."""
    with Client(GROUP) as client:
        run(
            ["jiyi", "--group", GROUP, "import", "jsonl", str(ROOT / "examples" / "diary" / "events.jsonl")],
            {},
            ROOT,
        )
        assert len(client.agents.list().rows) == 2
    with Client("default") as client:  # the stream that a snippet reads has something to tell
        client.observe("klaus", "Klaus is reading", importance=3)
    return unlimited_web


@pytest.fixture
def runs(
    served: int, api_key: Callable[..., str], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a text with the addresses and the keys of this service."""
    key = api_key("default", "publish", "read", "admin")
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    def perform(
        command: list[str], text: str, *, group: str = "default", stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        text = re.sub(
            r"http://(127\.0\.0\.1|localhost):8765|https://memory\.example\.org",
            f"http://127.0.0.1:{served}",
            text,
        )
        text = re.sub(
            r"(Client\(\"shop\".*?)jiyi_…",
            lambda of_shop: of_shop[1] + api_key("shop", "publish", "read"),
            text,
        )
        text = text.replace("jiyi_…", key)
        return run(
            [*command, text],
            {"JIYI_KEY": key if "curl" in text else "", "JIYI_GROUP": group},
            tmp_path,
            stdin,
        )

    return perform


def run(
    command: list[str], variables: dict[str, str], folder: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = (
        os.environ
        | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": str(COLUMNS)}
        | variables
    )
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        input=stdin,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    return done


def case(snippet: Snippet) -> Any:
    """A test of a snippet: README's are run by ``make test``, all others by ``make test-long``."""
    marks = () if snippet.page.startswith("README") else pytest.mark.long
    return pytest.param(snippet, id=str(snippet), marks=marks)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.startswith("README") else pytest.mark.long)
        for page in sorted({snippet.page for snippet in snippets("python")} - NO_PROGRAMS.keys())
    ],
)
def test_python(page: str, runs: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The page's programs one after the other in one process, each with names of its own."""
    programs = []
    for snippet in snippets("python"):
        if snippet.page == page and OWN_ENVIRONMENTS.search(snippet.text) is None:
            text = snippet.text
            if (
                page == "retrieval.md"
            ):  # by the rules the diary gives no thoughts: there is nothing to ask the reasons of
                text = text.replace("print(jiyi.memory.why(", "made.thoughts and print(jiyi.memory.why(")
            programs.append((text, str(snippet)))
    each = "\n".join(
        f"exec(compile({text!r}, {name!r}, 'exec'), {{'__name__': '__main__'}})" for text, name in programs
    )
    told = runs(
        [sys.executable, "-W", "error::DeprecationWarning", "-c"],
        each,
        stdin="What must I not eat?\n我对花生过敏\n",
    )
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("snippet", [case(snippet) for snippet in snippets("sh", "bash")])
def test_shell(snippet: Snippet, runs: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A curl that is refused fails; a stream is let go after a while."""
    lines = "\n".join(line for line in snippet.text.splitlines() if not elsewhere(line))
    most = STREAM_SECONDS if "/stream" in lines else SECONDS
    curl = f'curl() {{ command curl -sS --fail-with-body --max-time {most} "$@" || [ $? = 28 ]; }}\n'
    runs(["bash", "-euo", "pipefail", "-c"], curl + lines.replace(".venv/bin/", ""))


@pytest.mark.parametrize("snippet", [case(snippet) for snippet in snippets("console")])
def test_console(snippet: Snippet, runs: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A command that the page shows to fail has to fail, with what it shows."""
    for command, shown in commands(snippet.text):
        if elsewhere(command):
            continue
        refused = re.search(r"^jiyi: .+", shown, re.MULTILINE)
        if refused is None:
            done = runs(["bash", "-euo", "pipefail", "-c"], command.replace(".venv/bin/", ""), group=GROUP)
            if "--json" not in command:  # a table fits a terminal of 80 columns
                assert [line for line in done.stdout.splitlines() if cell_len(line.rstrip()) > COLUMNS] == []
        else:
            done = runs(["bash", "-uc"], f"{command} || [ $? = 1 ]", group=GROUP)
            assert refused[0] in done.stderr


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command and what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def elsewhere(command: str) -> bool:
    if not command.strip().startswith(tuple(ELSEWHERE)):
        return False
    if command.startswith("jiyi "):
        there_is(shlex.split(command, comments=True)[1:])
    return True


def there_is(arguments: list[str]) -> None:
    """The command line has such a command, and it has these options."""
    command: Any = get_command(app)
    while arguments and arguments[0] in getattr(command, "commands", {}):
        command = command.commands[arguments.pop(0)]
        command = command.load() if isinstance(command, Later) else command
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    } | {"--group", "-g"}
    given = {
        argument.partition("=")[0] for argument in arguments if argument.startswith("-") and len(argument) > 1
    }
    assert given <= known, arguments
