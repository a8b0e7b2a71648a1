"""When a node's memory is asked: the stages of an agent's run, and the names that the guide of the original has for them."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """A moment of a node's run. Without a thinking module only ``gen`` and ``finished`` happen."""

    PRE_GEN_THINKING = "pre_gen_thinking"
    GEN = "gen"
    POST_GEN_THINKING = "post_gen_thinking"
    FINISHED = "finished"


#: Other names, in lower case.
ALIASES = {"pre": Stage.PRE_GEN_THINKING, "plan": Stage.PRE_GEN_THINKING, "critique": Stage.POST_GEN_THINKING}


def stage_of(name: str) -> Stage:
    """The stage of that name. Raises ``ValueError`` naming those there are."""
    wanted = name.strip().lower()
    try:
        return ALIASES.get(wanted) or Stage(wanted)
    except ValueError:
        known = ", ".join([*Stage, *ALIASES])
        raise ValueError(f"unknown stage {name[:40]!r}; there are {known}") from None
