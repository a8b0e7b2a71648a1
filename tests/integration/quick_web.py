"""Most tests of the web make an app of their own. What takes its time there, and is the same for each, is
done less often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from werkzeug.routing import Rule


class _Compiled(BytecodeCache):
    """Templates compiled once for all apps of this process."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._kept:
            bucket.bytecode_from_string(self._kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _Compiled()


def share_templates(app: Flask) -> None:
    """Before its first page."""
    app.jinja_env.bytecode_cache = _COMPILED


@contextmanager
def urls_built_late() -> Iterator[None]:
    """Rules compile what builds their URLs when the first one is built; most never are, and it is most of
    what an app takes.
    """
    compile_builder = Rule._compile_builder

    def late(rule: Rule, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        made: list[Callable[..., tuple[str, str]]] = []

        def build(*args: Any, **values: Any) -> tuple[str, str]:
            if not made:
                made.append(compile_builder(rule, append_unknown))
            return made[0](*args, **values)

        return build

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "_compile_builder", late)
        yield
