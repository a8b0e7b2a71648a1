"""Words by which people say that something is no longer as it was (``changes.txt``)."""

from __future__ import annotations

import re
from importlib.resources import files

from jiyi.text.sections import parsed

_SECTIONS = parsed(files(__package__).joinpath("changes.txt").read_text(encoding="utf-8"))


def _union(section: str) -> re.Pattern[str]:
    return re.compile("|".join(_SECTIONS[section]), re.IGNORECASE)


#: In any memory: it says so (now, moved, 改, 不再), or perhaps (went up, 了 at the end of a clause).
SAYS = _union("says")
PERHAPS = _union("perhaps")
#: In a statement of the user's: something is otherwise, has ended or is another now, is only over.
CHANGE = _union("change")
ENDS = _union("ends")
OVER = _union("over")
