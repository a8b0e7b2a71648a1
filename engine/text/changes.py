"""Words by which people say that something is no longer as it was (``changes.txt``)."""

from __future__ import annotations

import re
from importlib.resources import files

from jiyi.text.sections import parsed

_LINES = parsed(files(__package__).joinpath("changes.txt").read_text(encoding="utf-8"))
_WORDS = {section: re.compile("|".join(lines), re.IGNORECASE) for section, lines in _LINES.items()}

#: In any memory: it says so (now, moved, 改, 不再), or perhaps (went up, 了 at the end of a clause).
SAYS = _WORDS["says"]
PERHAPS = _WORDS["perhaps"]
#: In a statement of the user's: something is otherwise, is only over.
CHANGE = _WORDS["change"]
OVER = _WORDS["over"]
