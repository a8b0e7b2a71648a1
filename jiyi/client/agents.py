"""``client.agents``: agents and their settings."""

from __future__ import annotations

from typing import Any, Unpack

from jiyi.client.arguments import AgentArguments
from jiyi.client.calls import Namespace, W, checked
from jiyi.client.steps import PageFetcher, Steps, rows, verb
from jiyi.protocol.base import DEFAULT_PAGE, Rows
from jiyi.protocol.memory import AgentsQuery, AgentState, ConfigureAgent


class Agents(Namespace[W]):
    """The group's agents."""

    @verb
    def configure(self, agent_id: str, **settings: Unpack[AgentArguments]) -> Steps[AgentState]:
        """Set an agent's settings now, with a row in the audit log; returns the agent.

        What is not given stays as it is; None takes the agent's own setting back. :meth:`jiyi.Client.configure` publishes
        an event instead, which also makes an agent that is not there yet.
        """
        return self._act("agents.configure", checked(ConfigureAgent, agent_id=agent_id, **settings), AgentState)

    @verb
    def list(self, *, after: str = "", limit: int = DEFAULT_PAGE, timeout: float | None = None) -> Steps[Rows[AgentState]]:
        """Agents in the order of their names, those after the name ``after``."""
        return self._ask("agents.list", checked(AgentsQuery, after=after, limit=limit), Rows[AgentState], timeout)

    @rows
    def all(self, *, timeout: float | None = None) -> PageFetcher[AgentState]:
        """Every agent, one after another, in the order of their names."""

        def turn(after: str | None) -> Steps[tuple[list[AgentState], Any]]:
            page = yield from self._ask("agents.list", checked(AgentsQuery, after=after or ""), Rows[AgentState], timeout)
            return page.rows, page.next

        return turn
