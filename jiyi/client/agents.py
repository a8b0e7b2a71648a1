"""``client.agents``: agents and their settings."""

from __future__ import annotations

from typing import Unpack

from jiyi.client.arguments import AgentArguments
from jiyi.client.calls import Calls, checked
from jiyi.protocol.memory import AgentsQuery, AgentState, ConfigureAgent
from jiyi.protocol.queries import DEFAULT_PAGE, Page


class Agents:
    """The group's agents."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def configure(self, agent_id: str, **settings: Unpack[AgentArguments]) -> AgentState:
        """Set an agent's settings now, with a row in the audit log; returns the agent.

        What is not given stays as it is; None takes the agent's own setting back. :meth:`jiyi.Client.configure` publishes
        an event instead, which also makes an agent that is not there yet.
        """
        done = self._calls.act("agents.configure", checked(ConfigureAgent, agent_id=agent_id, **settings))
        return AgentState.model_validate(done)

    def list(self, *, after: str = "", limit: int = DEFAULT_PAGE, timeout: float | None = None) -> Page:
        """Agents in the order of their names, those after the name ``after``."""
        return Page.model_validate(self._calls.ask("agents.list", checked(AgentsQuery, after=after, limit=limit), timeout))
