"""YAML of others, read within bounds of length and depth, and without aliases, which can grow endlessly."""

from __future__ import annotations

from typing import Any

import yaml

#: libyaml's where PyYAML was built with it: ten times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Lists and mappings within each other. Declarations have some five.
MAX_DEPTH = 50


class YamlError(ValueError):
    """A text that is no YAML, too large, too deep, or with aliases; the message is a sentence for people."""


def read_yaml(text: str, max_chars: int) -> Any:
    """The value of a YAML text.

    Raises:
        YamlError: says what is wrong, and where.
    """
    if len(text) > max_chars:
        raise YamlError(f"{len(text):,} characters are more than {max_chars:,}; shorten it")
    try:
        _check(text)
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 – a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        if isinstance(error, YamlError):
            raise
        raise YamlError(f"no YAML: {' '.join(str(error).split())[:300]}") from None


def _check(text: str) -> None:
    """Events come one by one, before anything is built: a bad text costs no more than its beginning."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise YamlError(
                    f"line {_line(event)}: lists and mappings are nested more than {MAX_DEPTH} deep; write it"
                    " flatter"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            raise YamlError(
                f"line {_line(event)}: YAML aliases (*name) are not read, they could grow without bounds;"
                " write the value out"
            )


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return 1 if mark is None else mark.line + 1  # every event of a text has one
