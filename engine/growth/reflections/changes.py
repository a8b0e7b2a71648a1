"""Which changes of its files an agent may propose after a look at itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.growth.pains.merging import most_alike
from engine.growth.reflections.types import IdentityChange
from jiyi.protocol.growth.identity_files import File, problems_of


def allowed(changes: Sequence[IdentityChange], *, soul: bool) -> list[IdentityChange]:
    """Those that may be proposed: changes of ``SOUL`` only where they are allowed."""
    return [change for change in changes if soul or change.file != "SOUL"]


def suggested(change: IdentityChange, current: str, most: int) -> str | None:
    """The file with the line at its end; None if it says so already, or may not be written (too long, an override)."""
    addition = " ".join(change.addition.split())
    lines = [line.strip().lstrip("-* ").casefold() for line in current.splitlines()]
    if addition.casefold() in lines:
        return None
    made = f"{current.rstrip()}\n- {addition}".lstrip("\n")
    return None if problems_of(made, most) else made


def news(change: IdentityChange, pending: Mapping[File, Sequence[str]]) -> bool:
    """Whether nobody has been asked about a line like it."""
    return most_alike(change.addition, pending.get(change.file, ())) is None
