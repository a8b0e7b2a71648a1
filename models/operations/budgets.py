"""Budgets for the LLM, of the deployment and of each group, by calendar month (UTC).

A spent budget is like a vendor that is away: work waits, attempts uncounted. What is in hand goes on, so a
month may cost a few questions more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from sqlalchemy import Connection, text

from jiyi.errors import LLMUnavailable
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.db.scope import current, whole_service

#: Share of a budget from which on the admin warns.
WARN_SHARE = 0.8
#: Seconds that a sum is kept by a process.
KEPT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Budget:
    """A month's. ``group_id`` None: the deployment's."""

    group_id: str | None
    limit: float
    spent: float

    @property
    def state(self) -> Literal["ok", "attention", "unreachable"]:
        if self.spent >= self.limit:
            return "unreachable"
        return "attention" if self.spent >= WARN_SHARE * self.limit else "ok"


def of(connection: Connection, group_id: str | None) -> list[Budget]:
    """Those that are set: the deployment's, where all groups may be seen, and the group's."""
    (whole, each), month = get_settings().llm_budgets, datetime.now(UTC).date().replace(day=1)
    everything = [(None, whole)] if current().whole_service else []
    limits = [*everything, *([(group_id, each)] if group_id else [])]
    return [
        Budget(whose, limit, float(connection.execute(_SPENT, {"group": whose, "month": month}).scalar_one()))
        for whose, limit in limits
        if limit
    ]


_known: dict[str, tuple[float, list[Budget]]] = {}


def allow(group_id: str) -> None:
    """Raises :class:`LLMUnavailable` if the month's money is spent."""
    if not any(get_settings().llm_budgets):
        return
    until, budgets = _known.get(group_id, (0.0, []))
    if time.monotonic() >= until:
        with whole_service(), unit_of_work() as connection:
            budgets = of(connection, group_id)
        _known[group_id] = (time.monotonic() + KEPT_SECONDS, budgets)
    for budget in budgets:
        if budget.spent >= budget.limit:
            most = f"{budget.limit:g}"
            raise LLMUnavailable(
                f"the deployment's budget of {most} a month is spent (JIYI_LLM_BUDGET); the work waits for"
                " the next"
                if budget.group_id is None
                else (
                    f"the group's budget of {most} a month is spent (JIYI_LLM_BUDGET); the work waits for the"
                    " next"
                )
            )


_SPENT = text(
    "SELECT coalesce(sum(cost), 0) FROM llm_usage WHERE day >= :month AND (CAST(:group AS text) IS NULL OR"
    " group_id = :group)"
)
