"""Claude's memory tool on Jiyi: its files are items of the service (``docs/integrations.md``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
from anthropic.lib.tools._beta_functions import ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from jiyi.client.actions import ItemsActions
from jiyi.client.calls import W, checked
from jiyi.client.client import AsyncClient, Client
from jiyi.client.steps import Steps
from jiyi.client.verbs import verb
from jiyi.errors import JiyiError
from jiyi.protocol import items as wire

ROOT = "/memories"
#: Levels of folders that are listed, and lines that are shown around a change.
LEVELS, AROUND = 2, 2


class _Commands:
    """What Claude writes below ``/memories`` stays. Its mistakes are returned to it as errors; so is an
    outage of the service.

    Args:
        client: how to reach the service; its key needs ``publish`` and ``read``. It stays the caller's to
        close.
        namespace: where the files are among the group's items: one for each person or agent.
    """

    def __init__(
        self, client: Client | AsyncClient, *, namespace: Sequence[str] = ("memories",), **options: Any
    ) -> None:
        super().__init__(**options)
        self._files: _Files[Any] = _Files.within(client.items, namespace)

    def _result_of(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """What a command answers."""
        try:
            return do(*arguments)
        except JiyiError as error:
            raise ToolError(str(error)) from error

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> Any:
        return self._result_of(self._files.view, command.path, command.view_range)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> Any:
        return self._result_of(self._files.create, command.path, command.file_text)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> Any:
        return self._result_of(self._files.str_replace, command.path, command.old_str, command.new_str or "")

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> Any:
        return self._result_of(self._files.insert, command.path, command.insert_line, command.insert_text)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> Any:
        return self._result_of(self._files.delete_path, command.path)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> Any:
        return self._result_of(self._files.rename, command.old_path, command.new_path)

    def clear_all_memory(self) -> Any:
        return self._result_of(self._files.clear)


class JiyiMemoryTool(_Commands, BetaAbstractMemoryTool):
    """``client.beta.messages.run_tools(…, tools=[JiyiMemoryTool(jiyi)])``, over a :class:`Client`."""


class AsyncJiyiMemoryTool(_Commands, BetaAsyncAbstractMemoryTool):
    """The same for ``AsyncAnthropic``, over an :class:`AsyncClient`."""

    async def _result_of(self, do: Callable[..., Awaitable[str]], *arguments: Any) -> str:
        try:
            return await do(*arguments)
        except JiyiError as error:
            raise ToolError(str(error)) from error


class _Files(ItemsActions[W]):
    """The commands as verbs of both clients: files are items by path, folders what paths have in common."""

    namespace: list[str]

    @classmethod
    def within(cls, items: ItemsActions[W], namespace: Sequence[str]) -> _Files[W]:
        if isinstance(namespace, str):
            raise TypeError(f"namespace: a list of names, such as [{namespace!r}]")
        files = cls(items._calls)  # noqa: SLF001 – the same calls
        files.namespace = list(namespace)
        return files

    @verb
    def view(self, path: str, lines: Sequence[int] | None) -> Steps[str]:
        place = _place(path)
        text = None if not place else (yield from self._read(place))
        if text is not None:
            return _numbered(path, text, lines)
        files = yield from self._below(place)
        if not files and place:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        above = f"{place}/" if place else ""
        return _listed(path, {key.removeprefix(above): size for key, size in files.items()})

    @verb
    def create(self, path: str, text: str) -> Steps[str]:
        place = _file(path)
        if (yield from self._read(place)) is not None:
            raise ToolError(f"File {path} already exists")
        if (yield from self._below(place)):
            raise ToolError(f"{path} is a directory")
        yield from self._write({place: text})
        return f"File created successfully at: {path}"

    @verb
    def str_replace(self, path: str, old: str, new: str) -> Steps[str]:
        text = yield from self._text(path)
        if not old:
            raise ToolError("No replacement was performed, old_str is empty.")
        if not (count := text.count(old)):
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            )
        if count > 1:
            raise ToolError(
                f"No replacement was performed. old_str `{old}` appears {count} times in {path}. Please"
                " ensure it is unique"
            )
        line = text[: text.index(old)].count("\n") + 1
        text = text.replace(old, new)
        yield from self._write({_file(path): text})
        snippet = _lines(text, max(1, line - AROUND), line + AROUND)
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line"
            f" numbers):\n{snippet}"
        )

    @verb
    def insert(self, path: str, line: int, new: str) -> Steps[str]:
        lines = (yield from self._text(path)).split("\n")
        if lines[-1] == "":
            lines.pop()
        if not 0 <= line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(line, new.removesuffix("\n"))
        yield from self._write({_file(path): "\n".join(lines) + "\n"})
        return f"The file {path} has been edited."

    @verb
    def delete_path(self, path: str) -> Steps[str]:
        place = _file(path)
        keys = yield from self._keys(place, path)
        yield from self._write(dict.fromkeys(keys))
        return f"Successfully deleted {path}"

    @verb
    def rename(self, old: str, new: str) -> Steps[str]:
        place, target = _file(old), _file(new)
        if f"{target}/".startswith(f"{place}/"):
            raise ToolError(f"{new} is {old} itself, or within it")
        if (yield from self._read(target)) is not None or (yield from self._below(target)):
            raise ToolError(f"The destination {new} already exists")
        keys = yield from self._keys(place, old)
        if 2 * len(keys) > wire.MAX_ITEMS:
            raise ToolError(f"{old} has {len(keys)} files; at most {wire.MAX_ITEMS // 2} are moved at once")
        moved = {}
        for key in keys:
            moved[f"{target}{key.removeprefix(place)}"] = yield from self._read(key)
        yield from self._write({**moved, **dict.fromkeys(keys)})
        return f"Successfully renamed {old} to {new}"

    @verb
    def clear(self) -> Steps[str]:
        yield from self._write(dict.fromkeys((yield from self._below(""))))
        return "All memory cleared"

    def _keys(self, place: str, path: str) -> Steps[list[str]]:
        """Of the file there, or of all below the folder."""
        keys = [place] if (yield from self._read(place)) is not None else [*(yield from self._below(place))]
        if not keys:
            raise ToolError(f"The path {path} does not exist")
        return keys

    def _text(self, path: str) -> Steps[str]:
        text = yield from self._read(_file(path))
        if text is None:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        return text

    def _read(self, key: str) -> Steps[str | None]:
        reference = checked(wire.ItemReference, namespace=self.namespace, key=key)
        [item] = (yield from ItemsActions.get.steps(self, items=[reference])).rows
        return None if item is None else str(item.value.get("text", ""))

    def _below(self, place: str) -> Steps[dict[str, int]]:
        """Path → bytes of each file below a folder."""
        files: dict[str, int] = {}
        offset, above = 0, f"{place}/" if place else ""
        while True:
            parameters = {"prefix": self.namespace, "limit": wire.MAX_ITEMS, "offset": offset}
            page = (yield from ItemsActions.search.steps(self, **parameters)).rows
            for item in page:
                if item.namespace == self.namespace and item.key.startswith(above):
                    files[item.key] = len(str(item.value.get("text", "")).encode())
            if len(page) < wire.MAX_ITEMS:
                return dict(sorted(files.items()))
            offset += len(page)

    def _write(self, files: dict[str, str | None]) -> Steps[None]:
        """Path → text; None deletes. Up to ``MAX_ITEMS`` are written all or none."""
        rows = [
            checked(
                wire.ItemWrite,
                namespace=self.namespace,
                key=key,
                value=None if text is None else {"text": text},
                texts=[text[: wire.MAX_TEXT_CHARS]] if text else [],
            )
            for key, text in files.items()
        ]
        for start in range(0, len(rows), wire.MAX_ITEMS):
            yield from ItemsActions.put.steps(self, items=rows[start : start + wire.MAX_ITEMS])


def _place(path: str) -> str:
    """The path within the memory; empty for all of it. Refuses what leads out of it."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    names = [name for name in path.removeprefix(ROOT).split("/") if name]
    if any(name in (".", "..") or "\\" in name or "\0" in name for name in names):
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    return "/".join(names)


def _file(path: str) -> str:
    if not (place := _place(path)):
        raise ToolError(f"{ROOT} itself cannot be written, deleted or renamed: name a file in it")
    return place


def _numbered(path: str, text: str, lines: Sequence[int] | None) -> str:
    first, last = (max(1, lines[0]), lines[1]) if lines and len(lines) == 2 else (1, -1)
    return f"Here's the content of {path} with line numbers:\n{_lines(text, first, last)}"


def _lines(text: str, first: int, last: int) -> str:
    """Those lines, each after its number; ``last`` -1: to the end."""
    lines = text.split("\n")
    return "\n".join(
        f"{number:6}\t{lines[number - 1]}"
        for number in range(first, (len(lines) if last == -1 else min(last, len(lines))) + 1)
    )


def _listed(path: str, files: dict[str, int]) -> str:
    sizes: dict[str, int] = {}
    for file, size in files.items():
        names = file.split("/")
        if any(name.startswith(".") for name in names):
            continue
        for level in range(1, min(len(names), LEVELS) + 1):
            entry = "/".join(names[:level]) + ("/" if level < len(names) else "")
            sizes[entry] = sizes.get(entry, 0) + size
    head = f"Here're the files and directories up to {LEVELS} levels deep in {path}, excluding hidden items:"
    return "\n".join(
        [
            head,
            f"{_size(sum(files.values()))}\t{path}",
            *(f"{_size(size)}\t{path.rstrip('/')}/{name}" for name, size in sizes.items()),
        ]
    )


def _size(count: float) -> str:
    return f"{count:.0f}B" if count < 1_024 else f"{count / 1_024:.1f}K"
