"""Fields of events: their types, and the limits of what they hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, AwareDatetime, Field
from pydantic_core import to_json

from jiyi.errors import readable_part
from jiyi.protocol import limits
from jiyi.protocol.wire.json_values import JsonObject

CONTENT_TYPE = "application/json"
#: Names end up in indexes and log lines: long enough for a path or an address, no longer.
MAX_NAME_CHARS = 200
#: Subjects may be whole paths of a simulated world (``world:sector:arena:object``).
MAX_PART_CHARS = 500
MAX_KEYWORD_CHARS = 200
MAX_UTTERANCE_CHARS = 20_000
#: A workflow node's output may be a whole document; what is promoted of it is split.
MAX_OUTPUT_CHARS = 100_000
MAX_FLAGS = 20
#: Calls within calls that an output may come from.
MAX_DEPTH = 1_000_000
#: What a step got and gave may be so long when it is told; a summary of it is kept.
MAX_STEP_CHARS = 20_000
MAX_STEPS, MAX_TOKENS, MAX_MS = 1_000_000, 100_000_000, 1_000_000_000
MAX_COMMENT_CHARS = 1_000
MAX_PROVENANCE_BYTES = 8_192
#: Characters of a memory in three to five keywords, and in one or two sentences.
MAX_ABSTRACT_CHARS, MAX_OVERVIEW_CHARS = 500, 2_000
MAX_PROVENANCE_DEPTH = 20
#: Latest events that a new one may be compared with: the original's are 5 to 8.
MAX_RETENTION = 100
#: What is within can be shifted by days and time zones without leaving Python's calendar.
EARLIEST, LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
#: Something else than white space. A pattern, because it is checked without leaving pydantic's core.
NOT_BLANK = r"\S"
#: How JSON spells NUL; pydantic's JSON parser itself refuses halves of surrogate pairs.
NUL_ESCAPE = b"\\u0000"


def within_description_limit(text: str) -> str:
    limit = limits.MAX_DESCRIPTION_CHARS
    if len(text) > limit:
        raise ValueError(f"{len(text):,} characters are more than {limit:,}; split the text into several memories")
    return text


def few_enough_keywords(keywords: list[str]) -> list[str]:
    limit = limits.MAX_KEYWORDS
    if len(keywords) > limit:
        raise ValueError(f"{len(keywords):,} keywords are more than {limit:,}; send the most telling ones")
    return keywords


def few_enough_entries(entries: list[Any]) -> list[Any]:
    limit = limits.MAX_EVIDENCE
    if len(entries) > limit:
        raise ValueError(f"{len(entries):,} entries are more than {limit:,}; split the memory")
    return entries


def small_enough(value: JsonObject) -> JsonObject:
    if value:
        plain_json(value, MAX_PROVENANCE_DEPTH)
        if len(to_json(value)) > MAX_PROVENANCE_BYTES:
            raise ValueError(f"larger than {MAX_PROVENANCE_BYTES:,} bytes as JSON")
    return value


def plain_json(value: Any, most: int, level: int = 0) -> None:
    """Raises ValueError for JSON that is nested deeper than ``most`` levels, or has a number that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("every number in it must be finite")
    if isinstance(value, dict | list | tuple):
        if level == most:
            raise ValueError(f"nested deeper than {most} levels")
        for item in value.values() if isinstance(value, dict) else value:
            plain_json(item, most, level + 1)


#: Both names are accepted; what is stored and answered has the first.
POIGNANCY = AliasChoices("poignancy", "importance")
Name = Annotated[str, Field(pattern=NOT_BLANK, max_length=MAX_NAME_CHARS)]
Part = Annotated[str, Field(max_length=MAX_PART_CHARS)]
Description = Annotated[str, Field(pattern=NOT_BLANK), AfterValidator(within_description_limit)]
Keyword = Annotated[str, Field(min_length=1, max_length=MAX_KEYWORD_CHARS)]
Utterance = tuple[Annotated[str, Field(max_length=MAX_NAME_CHARS)], Annotated[str, Field(max_length=MAX_UTTERANCE_CHARS)]]
Moment = Annotated[AwareDatetime, Field(ge=EARLIEST, le=LATEST)]
NodeType = Literal["event", "thought", "chat"]
Flag = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


def unstorable(value: Any, path: str = "") -> Iterator[str]:
    """Texts that PostgreSQL cannot hold (NUL) or that are no UTF-8 (half of a surrogate pair), by their path.

    Looked for here rather than by each field's validator: a message's bytes show at once that it has none.
    """
    if isinstance(value, str):
        if "\x00" in value:
            yield f"{path}: contains a NUL character (\\u0000); remove it"
        elif not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            yield f"{path}: contains half of a surrogate pair; send valid Unicode"
    elif isinstance(value, dict):
        for key, item in value.items():
            here = f"{path}.{readable_part(key)}".lstrip(".")
            yield from unstorable(key, here)
            yield from unstorable(item, here)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from unstorable(item, f"{path}.{position}")
