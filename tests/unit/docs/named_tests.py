"""Tests that a document names."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]


@cache
def found_in(path: str, *, skipped: bool = False) -> set[str]:
    """Names of the test functions of a module; those that may be skipped only if asked for."""
    tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        node.name
        for node in functions
        if node.name.startswith("test_")
        and (skipped or "skip" not in "".join(map(ast.unparse, node.decorator_list)))
    }
