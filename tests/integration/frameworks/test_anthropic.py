"""Claude's memory tool beside the SDK's own, which keeps files: case by case the same answers; and nothing
leads out of it.
"""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="needs the package anthropic (the extra `anthropic`)")

from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool
from anthropic.lib.tools._beta_functions import ToolError

from jiyi import AsyncClient, Client
from jiyi.integrations.anthropic import AsyncJiyiMemoryTool, JiyiMemoryTool
from jiyi.settings import get_settings

pytestmark = pytest.mark.long

TEA = "Mia drinks oolong\nIn the afternoon\n米娅不喝牛奶\n"


def create(path: str, text: str = TEA) -> dict[str, Any]:
    return {"command": "create", "path": path, "file_text": text}


def view(path: str, **more: Any) -> dict[str, Any]:
    return {"command": "view", "path": path, **more}


def replace(path: str, old: str, new: str) -> dict[str, Any]:
    return {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def insert(path: str, line: int, text: str) -> dict[str, Any]:
    return {"command": "insert", "path": path, "insert_line": line, "insert_text": text}


def delete(path: str) -> dict[str, Any]:
    return {"command": "delete", "path": path}


def rename(old: str, new: str) -> dict[str, Any]:
    return {"command": "rename", "old_path": old, "new_path": new}


A = "/memories/a.md"
COMMANDS = [
    view("/memories/none.md"),
    create(A),
    view(A),
    view(A, view_range=[2, 3]),
    view(A, view_range=[3, -1]),
    view(A, view_range=[9, 99]),
    create(A),
    create("/memories/empty.md", ""),
    view("/memories/empty.md"),
    replace(A, "afternoon", "evening"),
    view(A),
    replace(A, "not there", "x"),
    replace(A, "n", "x"),
    replace("/memories/b.md", "a", "b"),
    insert(A, 0, "First\n"),
    insert(A, 2, "中间"),
    insert(A, 99, "x"),
    insert(A, -1, "x"),
    view(A),
    insert("/memories/b", 0, "x"),
    create("/memories/people/mia/tea.md"),
    create("/memories/people/leo.md"),
    rename("/memories/people", "/memories/friends"),
    view("/memories/people/leo.md"),
    view("/memories/friends/mia/tea.md"),
    rename(A, "/memories/friends/leo.md"),
    rename("/memories/x", A),
    rename(A, "/memories/deep/er/a.md"),
    view("/memories/deep/er/a.md"),
    delete("/memories/friends"),
    view("/memories/friends/leo.md"),
    delete("/memories/none"),
    delete("/memories/deep/er/a.md"),
    view("/memories/deep/er/a.md"),
    delete("/memories"),
    rename("/memories", "/memories/x"),
    view("/elsewhere"),
    create("/etc/x"),
    view("/memories/../../etc/x"),
    create("/memories/../x"),
    rename("/memories/empty.md", "/memories/../y"),
    delete("/memories/a/../.."),
    view("/memoriesx/a"),
]


def said(tool: Any, command: dict[str, Any]) -> str:
    """What Claude is told; of refusals only that it is one, where the words differ."""
    try:
        answer = tool.call(command)
        return str(asyncio.run(answer) if inspect.iscoroutine(answer) else answer)
    except ToolError:
        return "refused"


def test_it_answers_as_the_one_that_keeps_files(client: Client, tmp_path: Path) -> None:
    ours, theirs = (
        JiyiMemoryTool(client, namespace=["mia", "memories"]),
        BetaLocalFilesystemMemoryTool(str(tmp_path)),
    )
    assert ours.to_dict() == theirs.to_dict()
    for command in COMMANDS:
        assert said(ours, command) == said(theirs, command), command
    listed = said(ours, view("/memories"))
    assert listed.splitlines()[1:] == ["0B\t/memories", "0B\t/memories/empty.md"]
    assert said(JiyiMemoryTool(client, namespace=["leo", "memories"]), view("/memories")).splitlines()[
        1:
    ] == ["0B\t/memories"]
    [found] = client.items.search(prefix=["mia"], limit=1).rows
    assert found.key == "empty.md"
    ours.clear_all_memory()
    assert client.items.search(prefix=["mia"]).rows == []


def test_folders_are_listed_two_levels_deep_without_hidden_files(client: Client) -> None:
    tool = JiyiMemoryTool(client)
    for path in ("notes/tea.md", "notes/deep/er/a.md", "top.md", ".hidden/x.md", "notes/.y.md"):
        said(tool, create(f"/memories/{path}", "12345"))
    assert said(tool, view("/memories")).splitlines()[2:] == [
        "10B\t/memories/notes/",
        "5B\t/memories/notes/deep/",
        "5B\t/memories/notes/tea.md",
        "5B\t/memories/top.md",
    ]
    assert said(tool, view("/memories/notes/deep")).splitlines()[2:] == [
        "5B\t/memories/notes/deep/er/",
        "5B\t/memories/notes/deep/er/a.md",
    ]


SOME = [
    create(A),
    view(A),
    replace(A, "Mia", "Leo"),
    insert(A, 1, "x"),
    rename(A, "/memories/b"),
    delete("/memories/b"),
]


def test_awaited_it_is_the_same(client: Client) -> None:
    async def talk() -> list[str]:
        async with AsyncClient(client.group) as awaited:
            tool = AsyncJiyiMemoryTool(awaited, namespace=["async"])
            answers = [str(await tool.call(command)) for command in SOME]
            with pytest.raises(ToolError, match="does not exist"):
                await tool.call(view(A))
            return answers

    tool = JiyiMemoryTool(client, namespace=["sync"])
    assert asyncio.run(talk()) == [said(tool, command) for command in SOME]


def test_what_the_service_refuses_and_its_absence_are_told_to_the_model(client: Client) -> None:
    tool = JiyiMemoryTool(client)
    for path, text, reason in (
        ("/memories/large.md", "x" * 600_000, "larger than 500,000 bytes"),
        (f"/memories/{'n' * 600}", "x", "key"),
    ):
        with pytest.raises(ToolError, match=reason):
            tool.call(create(path, text))
    nowhere = dict.fromkeys(("broker_url", "redis_url"), "redis://127.0.0.1:1/0")
    settings = get_settings().model_copy(update={**nowhere, "request_timeout": 0.4})
    with Client(client.group, settings=settings) as away, pytest.raises(ToolError, match="cannot be reached"):
        JiyiMemoryTool(away).call(view("/memories"))
