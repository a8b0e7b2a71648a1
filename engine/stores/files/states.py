"""What can be the matter with a file of a store: one word that is stored, and the sentence beside it that names the fix."""

from __future__ import annotations

from typing import Literal, get_args

from engine.parsing.limits import Refused

#: ``pending``: to be read. ``indexed``: its text is found, though vectors may still be owed. All others: nothing of it is found.
FileState = Literal[
    "pending", "indexed", "empty", "too_large", "encrypted", "undecodable", "binary", "malformed", "outside", "unreadable", "unstable"
]
FILE_STATES: tuple[FileState, ...] = get_args(FileState)


class Unusable(Refused):
    """A file that cannot be indexed as it is: ``state`` is stored with it, the message says why and what helps."""

    state: FileState

    def __init__(self, state: FileState, reason: str) -> None:
        super().__init__(state, reason)

    @classmethod
    def of(cls, refused: Refused) -> Unusable:
        """The same, told by a parsing process."""
        assert refused.state in FILE_STATES
        return cls(refused.state, refused.reason)
