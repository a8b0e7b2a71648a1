"""What questions to LLMs have used, added up by day, prompt and model for each group."""

from __future__ import annotations

import logging
from datetime import date

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from jiyi.protocol.providers import LLMUsage
from jiyi.providers.llms.usage import Usage
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service

log = logging.getLogger(__name__)


def record(used: Usage) -> None:
    """Count one question, in a transaction of its own: what was spent stays spent if the work around it fails.

    Never raises: an answer that was paid for is not thrown away because it could not be counted.
    """
    try:
        # Threads that ask have no scope of their own; what was asked for no group is the whole service's.
        with for_groups(used.group_id) if used.group_id else whole_service(), unit_of_work() as connection:
            add(connection, used)
    except SQLAlchemyError as error:
        log.warning("usage of %s by %s was not counted: %s", used.prompt, used.model, error)


def add(connection: Connection, used: Usage) -> None:
    connection.execute(
        _ADD,
        {
            "group": used.group_id,
            "prompt": used.prompt,
            "model": used.model,
            "calls": used.calls,
            "failures": used.failures,
            "prompt_tokens": used.prompt_tokens,
            "completion_tokens": used.completion_tokens,
            "cost": used.cost,
        },
    )


def since(connection: Connection, group_id: str, first_day: date) -> list[LLMUsage]:
    """The group's usage from a day (UTC) on, by prompt and model, the most expensive first."""
    rows = connection.execute(_SINCE, {"group": group_id, "day": first_day}).mappings()
    return [LLMUsage.model_validate(dict(row)) for row in rows]


_ADD = text("""
    INSERT INTO llm_usage (group_id, day, prompt, model, calls, failures, prompt_tokens, completion_tokens, cost)
    VALUES (:group, (now() AT TIME ZONE 'UTC')::date, :prompt, :model, :calls, :failures, :prompt_tokens,
        :completion_tokens, :cost)
    ON CONFLICT (group_id, day, prompt, model) DO UPDATE SET calls = llm_usage.calls + excluded.calls,
        failures = llm_usage.failures + excluded.failures,
        prompt_tokens = llm_usage.prompt_tokens + excluded.prompt_tokens,
        completion_tokens = llm_usage.completion_tokens + excluded.completion_tokens,
        cost = llm_usage.cost + excluded.cost
""")
_SINCE = text("""
    SELECT prompt, model, sum(calls)::bigint AS calls, sum(failures)::bigint AS failures,
        sum(prompt_tokens)::bigint AS prompt_tokens, sum(completion_tokens)::bigint AS completion_tokens, sum(cost) AS cost
    FROM llm_usage WHERE group_id = :group AND day >= :day
    GROUP BY prompt, model ORDER BY cost DESC, calls DESC, prompt, model
""")
