"""Python source as a graph: modules, what they import, and what a name in them means. Nothing is imported or
run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of source."""

    name: str
    path: Path
    text: str

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def names(self) -> dict[str, str]:
        """Local name → dotted name, of everything that is imported anywhere in it."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{self.origin(node)}.{alias.name}"
        return found

    def origin(self, node: ast.ImportFrom) -> str:
        """The module that a ``from`` import names, relative ones too."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        base = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*base, *([node.module] if node.module else [])])

    def dotted(self, node: ast.expr) -> str | None:
        """What a name or attribute means, as a dotted name; None for other expressions."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, f"{self.name}.{node.id}")
        if isinstance(node, ast.Attribute):
            value = self.dotted(node.value)
            return None if value is None else f"{value}.{node.attr}"
        return None

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Functions and methods by their dotted names; those within functions belong to them."""
        for node in self.tree.body:
            if isinstance(node, Function):
                yield f"{self.name}.{node.name}", node
            elif isinstance(node, ast.ClassDef):
                yield from (
                    (f"{self.name}.{node.name}.{item.name}", item)
                    for item in node.body
                    if isinstance(item, Function)
                )


def modules(root: Path, folders: Iterable[str]) -> dict[str, Module]:
    """Every module below these folders, by its dotted name."""
    found = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path, path.read_text(encoding="utf-8"))
    return found


def imports(known: Mapping[str, Module], *, late: bool = True) -> dict[str, set[str]]:
    """Module → those it imports; unless ``late``, only when it is itself imported, not within functions.

    Imports for type checkers only do not count, nor that a package is loaded with each of its modules.
    """
    return {name: set(_imported(module, known, late=late)) - {name} for name, module in known.items()}


def _imported(module: Module, known: Mapping[str, Module], *, late: bool) -> Iterator[str]:
    for node in _import_statements(module.tree.body, late=late):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        else:
            origin = module.origin(node)
            for alias in node.names:
                if f"{origin}.{alias.name}" in known:
                    yield f"{origin}.{alias.name}"
                elif origin in known:
                    yield origin


def _import_statements(body: Iterable[ast.AST], *, late: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from _import_statements(node.orelse, late=late)
        elif late or not isinstance(node, Function | ast.Lambda):
            yield from _import_statements(ast.iter_child_nodes(node), late=late)


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, directly or not: each such set once, sorted (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            start = stack.index(node)
            if len(stack) - start > 1 or node in graph.get(node, ()):
                found.append(sorted(stack[start:]))
            del stack[start:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found)
