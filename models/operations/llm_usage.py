"""What questions to LLMs have used, added up by day, prompt and model for each group."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import date

from sqlalchemy import Connection, Date, func, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from engine.providers.llm_prompts import Usage
from jiyi.protocol.providers import LLMUsage
from models.db.connection import unit_of_work
from models.db.rows import fetch
from models.db.scope import for_groups, whole_service
from models.operations import tables

log = logging.getLogger(__name__)

#: What adds up over a day.
COUNTED = ("calls", "failures", "prompt_tokens", "completion_tokens", "cost")


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
    today = func.timezone("UTC", func.now()).cast(Date)
    more = insert(_U).values(day=today, **asdict(used))
    counted = {name: _U.__table__.c[name] + more.excluded[name] for name in COUNTED}
    connection.execute(more.on_conflict_do_update(index_elements=["group_id", "day", "prompt", "model"], set_=counted))


def since(connection: Connection, group_id: str, first_day: date) -> list[LLMUsage]:
    """The group's usage from a day (UTC) on, by prompt and model, the most expensive first."""
    return fetch(connection, LLMUsage, _SINCE, group=group_id, day=first_day)


_U = tables.LLMUsage
_SINCE = text("""
    SELECT prompt, model, sum(calls)::bigint AS calls, sum(failures)::bigint AS failures,
        sum(prompt_tokens)::bigint AS prompt_tokens, sum(completion_tokens)::bigint AS completion_tokens, sum(cost) AS cost
    FROM llm_usage WHERE group_id = :group AND day >= :day
    GROUP BY prompt, model ORDER BY cost DESC, calls DESC, prompt, model
""")
