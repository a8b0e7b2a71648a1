"""Compression: a session's steps become its trajectory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from engine.growth.satisfaction.detect import satisfaction
from engine.growth.trajectories import compress as compressing
from engine.heads.local import heads
from models.growth.artifacts.growing import COMPOSE
from models.growth.trajectories import compressing as stored
from models.growth.trajectories import storing
from models.growth.trajectories.storing import COMPRESS, SILENCE_MINUTES
from models.memory.agents.agents import lock_agents
from models.queue import pending_work
from models.queue.wakeups import wake
from tasks.framework.work import Batch, work_task

BATCH = 20
TIME_LIMIT = 60


@work_task(COMPRESS, queue="reflection", batch=BATCH, time_limit=TIME_LIMIT)
def compress(batch: Batch) -> None:
    """Compress what sessions did since their last trajectory, and owe a look for chains of tools.

    It runs where turns are extracted: that worker has loaded the local model, which judges how satisfied users are.
    Safe to repeat because a step is compressed once: its row names its trajectory in the transaction that stores that.
    """
    composed = False
    judge = partial(satisfaction, heads=heads())  # before the transaction: the first call loads the model
    silent_since = datetime.now(UTC) - timedelta(minutes=SILENCE_MINUTES)
    with batch.finish() as (connection, owed):
        found = {key: session for key in owed if (session := stored.session_of(connection, key)) is not None}
        agents = lock_agents(connection, [session.agent for session in found.values()])
        for key, session in found.items():
            steps = stored.steps_of(connection, session, key, silent_since)
            made = compressing.compress(steps, judge)
            if made is not None:
                stored.keep(connection, session, steps, made)
                if made.tools_used:
                    pending_work.enqueue(connection, COMPOSE, [(agents[session.agent].agent_key, session.group_id)])
                    composed = True
            if (again := storing.due_at(connection, session.group_id, key)) is not None:
                batch.later[key] = again
    if composed:
        wake(COMPOSE)
