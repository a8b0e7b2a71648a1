"""What a type checker says of programs that use the client: names and types of options, and what comes of
each verb.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: A first run without a cache reads all that the client imports.
SECONDS = 280

PROGRAM = """
from jiyi import AsyncClient, Client

def blocking(client: Client) -> None:
    client.retrieve("klaus", "tea", topk=3)  # refused
    client.retrieve("klaus", "tea", top_k="three")  # refused
    client.observe("klaus", "tea", poignency=3)  # refused
    client.list("klaus", archived=True)  # refused
    client.configure("klaus", recency_weight=1)  # refused
    client.knowledge.promote(text="x", kid="rule")  # refused
    client.knowledge.history(id="x").row  # refused
    client.jobs.tick(job="archive", slot=1).ended  # refused
    print(client.knowledge.history(id="x").rows[0].at, client.within(3).items.get(items=[]).rows)
    client.retrieve("klaus", ["tea", "coffee"], top_k=3, filters={"types": ["event"]}, now="2026-03-02T07:15Z")
    print(client.observe("klaus", "tea", importance=3).hex, client.retrieve("klaus", "tea").retrieved_nodes[0].score)
    for memory in client.list("klaus"):
        print(memory.description, memory.descripton)  # refused

async def awaiting(client: AsyncClient) -> None:
    await client.retrieve("klaus", "tea", topk=3)  # refused
    client.retrieve("klaus", "tea").status  # refused
    print((await client.observe("klaus", "tea")).hex, (await client.agents.list()).rows[0].agent_id)
    client.agents.list().rows  # refused
    async for memory in client.list("klaus"):
        print(memory.description)
    for memory in client.list("klaus"):  # refused
        pass
"""


@pytest.mark.timeout(SECONDS + 10)
def test_mypy_refuses_what_the_service_would(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS)
    refused = {int(line) for line in re.findall(r"^\S*program\.py:(\d+): error", done.stdout, re.MULTILINE)}
    expected = {
        number for number, line in enumerate(PROGRAM.splitlines(), start=1) if line.endswith("# refused")
    }
    assert refused == expected, done.stdout + done.stderr
    assert 'Unexpected keyword argument "topk"; did you mean "top_k"?' in done.stdout
