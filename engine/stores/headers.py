"""Headers that the original puts before what comes from other nodes: ``=== INPUT FROM research (user) ===``."""

from __future__ import annotations

import re

_HEADER = re.compile(r"^={3,10} ?INPUT FROM [^\n=]{1,200}={3,10}[ \t]{0,20}$", re.MULTILINE | re.IGNORECASE)


def without_headers(text: str) -> str:
    """What was said, without where it came from."""
    return _HEADER.sub("", text).strip()
