"""The file ``USER`` follows the profile."""

from __future__ import annotations

from models.db.connection import unit_of_work
from models.growth.identity import profile_file
from models.growth.owing import FOLLOW_PROFILE
from models.memory.agents import agents
from models.memory.agents.agents import lock_agents
from tasks.framework.work import Batch, work_task


@work_task(FOLLOW_PROFILE, batch=20, time_limit=60)
def follow_profile(batch: Batch) -> None:
    """Write what an agent's profile says of its user into the file ``USER``.

    Safe to repeat because the version and the receipt are one transaction, and a file that says the same stays as it is.
    """
    with unit_of_work() as connection:
        names = {key: name for key in batch.subject_ids if (name := agents.name_of(connection, key)) is not None}
    with batch.finish() as (connection, owed):
        lock_agents(connection, [names[key] for key in owed if key in names])
        for key in owed:
            if key in names and agents.key_of(connection, *names[key]) == key:
                profile_file.follow(connection, names[key])
