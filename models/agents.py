"""Agents: made on their first event, their settings, their numbering."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from jiyi.agents import AgentSettings
from jiyi.events import Configuration
from jiyi.settings import get_settings

#: (group_id, agent_id)
AgentName = tuple[str, str]


@dataclass(slots=True)
class AgentRow:
    """An agent's row, locked by the transaction that holds it: numbers are given out in memory, written once."""

    group_id: str
    agent_id: str
    agent_key: UUID
    settings: AgentSettings
    node_count: int
    type_counts: dict[str, int]
    importance_trigger_curr: float
    importance_ele_n: int
    changed: bool = False

    def number(self, node_type: str) -> tuple[int, int]:
        """The next (node_count, type_count) of this agent (GA-15)."""
        self.changed = True
        self.node_count += 1
        self.type_counts[node_type] = self.type_counts.get(node_type, 0) + 1
        return self.node_count, self.type_counts[node_type]

    def configure(self, configuration: Configuration) -> None:
        """Replace the settings that are given. A new trigger maximum keeps what was added up so far."""
        self.changed = True
        before = self.settings.over(get_settings()).importance_trigger_max
        given = configuration.model_dump(exclude_unset=True, exclude={"counters"})
        self.settings = AgentSettings(**{**self.settings.model_dump(exclude_none=True), **given})
        self.importance_trigger_curr += self.settings.over(get_settings()).importance_trigger_max - before
        if configuration.counters is not None:
            self.importance_trigger_curr = configuration.counters.importance_trigger_curr
            self.importance_ele_n = configuration.counters.importance_ele_n


def lock_agents(connection: Connection, names: Iterable[AgentName]) -> dict[AgentName, AgentRow]:
    """The named agents, made if absent, locked until the transaction ends.

    Always in the same order, so that two intakes with the same agents queue up instead of deadlocking.
    """
    wanted = sorted(set(names))
    parameters = {
        "groups": [group_id for group_id, _ in wanted],
        "agents": [agent_id for _, agent_id in wanted],
        "keys": [uuid7() for _ in wanted],
        "trigger": get_settings().importance_trigger_max,
    }
    found = _select_locked(connection, parameters)
    if len(found) < len(wanted):
        connection.execute(_INSERT_GROUPS, parameters)
        connection.execute(_INSERT_AGENTS, parameters)
        found = _select_locked(connection, parameters)
    return found


def save_agents(connection: Connection, agents: Iterable[AgentRow]) -> None:
    """Write back what changed of agents that :func:`lock_agents` gave."""
    rows = [
        {
            "group": agent.group_id,
            "agent": agent.agent_id,
            "settings": agent.settings.model_dump(exclude_none=True),
            "node_count": agent.node_count,
            "type_counts": agent.type_counts,
            "curr": agent.importance_trigger_curr,
            "ele_n": agent.importance_ele_n,
        }
        for agent in agents
        if agent.changed
    ]
    if rows:
        connection.execute(_SAVE, rows)


def agent_settings(connection: Connection, group_id: str, agent_id: str) -> AgentSettings | None:
    """The agent's own settings, or None for an agent that no event has named yet."""
    row = connection.execute(_SETTINGS, {"group": group_id, "agent": agent_id}).one_or_none()
    return None if row is None else AgentSettings(**row.settings)


def _select_locked(connection: Connection, parameters: dict[str, Any]) -> dict[AgentName, AgentRow]:
    return {
        (row.group_id, row.agent_id): AgentRow(
            row.group_id, row.agent_id, row.agent_key, AgentSettings(**row.settings), row.node_count,
            dict(row.type_counts), row.importance_trigger_curr, row.importance_ele_n,
        )
        for row in connection.execute(_SELECT_LOCKED, parameters)
    }  # fmt: skip


_SETTINGS = text("SELECT settings FROM agents WHERE group_id = :group AND agent_id = :agent")

_INSERT_GROUPS = text("""
    INSERT INTO groups (group_id) SELECT DISTINCT unnest(CAST(:groups AS text[])) ORDER BY 1 ON CONFLICT DO NOTHING
""")
_INSERT_AGENTS = text("""
    INSERT INTO agents (group_id, agent_id, agent_key, importance_trigger_curr)
    SELECT *, :trigger FROM unnest(CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:keys AS uuid[]))
    ON CONFLICT DO NOTHING
""")
_SELECT_LOCKED = text("""
    SELECT group_id, agent_id, agent_key, settings, node_count, type_counts, importance_trigger_curr, importance_ele_n
    FROM agents
    WHERE (group_id, agent_id) IN (SELECT * FROM unnest(CAST(:groups AS text[]), CAST(:agents AS text[])))
    ORDER BY group_id, agent_id FOR NO KEY UPDATE
""")
_SAVE = text("""
    UPDATE agents SET settings = :settings, node_count = :node_count, type_counts = :type_counts,
        importance_trigger_curr = :curr, importance_ele_n = :ele_n
    WHERE group_id = :group AND agent_id = :agent
""").bindparams(bindparam("settings", type_=JSONB), bindparam("type_counts", type_=JSONB))
