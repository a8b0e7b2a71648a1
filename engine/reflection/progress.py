"""How far an agent is on the way to its next reflection."""

from __future__ import annotations

from pydantic import BaseModel

from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.memory import AgentState
from jiyi.settings import Settings


class Progress(BaseModel):
    """Importance that events have added up to, and what it takes; ``owed``: it is enough."""

    gathered: float
    max: int | float  # as the setting has it
    owed: bool


class AgentOnItsWay(AgentState):
    """An agent, and how far it is."""

    reflection: Progress


def with_progress(agent: AgentState, settings: Settings) -> AgentOnItsWay:
    """The agent's threshold is its own, or the deployment's."""
    most = AgentSettings(**agent.settings).over(settings).importance_trigger_max
    gathered = most - agent.importance_trigger_curr
    return AgentOnItsWay(**dict(agent), reflection=Progress(gathered=gathered, max=most, owed=gathered >= most))
