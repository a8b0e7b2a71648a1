"""jiyi.protocol.agents: an agent's settings over the deployment's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jiyi.protocol.agents import AgentSettings, ResolvedSettings
from jiyi.settings import WEIGHTS, AgentDefaults, Mode, Settings

OWN = {
    "mode": "stanford",
    "recency_w": 0.0,
    "relevance_w": 2.5,
    "importance_w": 0.5,
    "recency_decay": 0.9,
    "dedupe": "exact",
    "importance_trigger_max": 7,
    "derive_poignancy": "off",
    "derive_triple": "llm",
    "derive_keywords": "llm",
    "tz": "Asia/Shanghai",
}
DEPLOYMENT = {
    "mode": "elapsed",
    "recency_w": 1.5,
    "relevance_w": 1.25,
    "importance_w": 3.0,
    "recency_decay": 0.5,
    "dedupe": "off",
    "importance_trigger_max": 99,
    "derive_poignancy": "llm",
    "derive_triple": "off",
    "derive_keywords": "text",
    "tz": "Europe/Berlin",
}


@pytest.fixture
def deployment(configure: Callable[..., Settings]) -> Settings:
    defaults = ", ".join(f"{name}={value}" for name, value in DEPLOYMENT.items() if name != "tz")
    return configure(agent_defaults=defaults, tz=DEPLOYMENT["tz"])


@pytest.mark.parametrize("name", OWN)
def test_each_setting_falls_back_by_itself(name: str, deployment: Settings) -> None:
    """A weight of 0 is set, not missing."""
    resolved = AgentSettings(**{name: OWN[name]}).over(deployment).model_dump()
    assert resolved == DEPLOYMENT | {name: OWN[name]}
    others = {other: value for other, value in OWN.items() if other != name}
    assert AgentSettings(**others).over(deployment).model_dump() == OWN | {name: DEPLOYMENT[name]}


@pytest.mark.parametrize("name", WEIGHTS)
def test_15_a_negative_weight_counts_in_the_originals_mode_only(name: str, deployment: Settings) -> None:
    rows: list[tuple[Mode | None, Mode | None, object]] = [
        (None, None, DEPLOYMENT[name]),
        (None, "recent", DEPLOYMENT[name]),
        (None, "stanford", -1),
        ("stanford", None, -1),
        ("stanford", "recent", DEPLOYMENT[name]),
    ]
    for mode, asked, expected in rows:
        own = AgentSettings.model_validate({name: -1.0} | ({"mode": mode} if mode else {}))
        assert getattr(own.over(deployment, asked), name) == expected


def test_every_setting_of_an_agent_exists_for_the_deployment_too() -> None:
    assert (
        AgentSettings.model_fields.keys()
        == ResolvedSettings.model_fields.keys()
        <= {"tz", *AgentDefaults.model_fields}
    )
