"""What all declarations have in common: strict models, and errors that name the path of what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from jiyi.errors import ConfigError, readable_part

M = TypeVar("M", bound=BaseModel)
#: What a validator of several fields says: the field first.
_OF_FIELD = re.compile(r"([a-z_]{1,60}): (.*)", re.DOTALL)


class Config(BaseModel):
    """A part of a declaration. What it does not know is an error: a typo must not switch something off."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def checked(model: type[M], given: Any, path: str) -> M:
    """``given`` as a model.

    Raises:
        ConfigError: with a sentence for each wrong field, which begins with its path.
    """
    if not isinstance(given, Mapping):
        raise ConfigError([f"{path}: must be a mapping of names to values"])
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise ConfigError([_sentence(item, path) for item in error.errors(include_url=False)]) from None


def _sentence(item: Mapping[str, Any], path: str) -> str:
    message = "required, but missing" if item["type"] == "missing" else str(item["msg"]).removeprefix("Value error, ")
    told = _OF_FIELD.fullmatch(message) if item["type"] == "value_error" else None  # "chunk_overlap: must be …", of the whole
    return f"{joined(path, *item['loc'], told[1])}: {told[2]}" if told else f"{joined(path, *item['loc'])}: {message}"


def joined(path: str, *parts: object) -> str:
    """The path of a part: ``memory[1].config.embedding``."""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{readable_part(part)}"
    return path
