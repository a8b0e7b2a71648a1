"""Compression: a session's steps become its trajectory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from engine.growth.trajectories import compress as compress_steps
from engine.growth.trajectories import satisfaction
from engine.heads.local import heads
from models.growth import trajectories
from models.growth.trajectories import COMPRESS, SILENCE_MINUTES
from models.growth.work import COMPOSE
from models.memory.agents import lock_agents
from models.queue import pending_work
from models.queue.wakeups import wake
from tasks.framework.work import Batch, work_task

BATCH = 20
TIME_LIMIT = 60


@work_task(COMPRESS, batch=BATCH, time_limit=TIME_LIMIT, owed_ahead=SILENCE_MINUTES * 60)
def compress(batch: Batch) -> None:
    """Compress what sessions did since their last trajectory, and owe a look for chains of tools.

    It runs where turns are extracted: that worker has loaded the local model, which judges how satisfied users are.
    Safe to repeat because a step is compressed once: its row names its trajectory in the transaction that stores that.
    """
    composed = False
    judge = partial(satisfaction, heads=heads())  # before the transaction: the first call loads the model
    silent_since = datetime.now(UTC) - timedelta(minutes=SILENCE_MINUTES)
    with batch.finish() as (connection, owed):
        sessions = {key: session for key in owed if (session := trajectories.session_of(connection, key)) is not None}
        agents = lock_agents(connection, [session.agent for session in sessions.values()])
        for key, session in sessions.items():
            steps = trajectories.steps_of(connection, session, key, silent_since)
            trajectory = compress_steps(steps, judge)
            if trajectory is not None:
                trajectories.store_trajectory(connection, session, steps, trajectory)
                if trajectory.tools_used:
                    pending_work.enqueue(connection, COMPOSE, [(agents[session.agent].agent_key, session.group_id)])
                    composed = True
            if (again := trajectories.compression_due_at(connection, session.group_id, key)) is not None:
                batch.later[key] = again
    if composed:
        wake(COMPOSE)
