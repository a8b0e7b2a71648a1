"""Numbers of what an LLM is shown: lines are L0, L1 …, statements S0, S1 …, so that nobody takes one for the
other.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

LINE, STATEMENT = "L", "S"
_NUMBER = re.compile(rf"\s{{0,9}}[{LINE}{STATEMENT}]?(\d{{1,6}})\s{{0,9}}", re.IGNORECASE)


def number_of(value: Any) -> Any:
    """``L12``, ``"12"`` and 12 are 12; anything else stays, for the check of the number."""
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) if match else value


_OF_LINE, _OF_STATEMENT = f"^{LINE}[0-9]+$", f"^{STATEMENT}[0-9]+$"
LineNumber = Annotated[
    int, BeforeValidator(number_of), WithJsonSchema({"type": "string", "pattern": _OF_LINE})
]
StatementNumber = Annotated[
    int, BeforeValidator(number_of), WithJsonSchema({"type": "string", "pattern": _OF_STATEMENT})
]
#: The first of each, in JSON, by the pattern of its schema.
NUMBERED = {_OF_LINE: f'"{LINE}0"', _OF_STATEMENT: f'"{STATEMENT}0"'}
