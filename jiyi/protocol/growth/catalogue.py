"""Every command on growth and appointments by its name: what it takes, what it gives, and which queue of the broker answers it."""

from __future__ import annotations

from pydantic import BaseModel

from jiyi.protocol.appointments import heartbeats, schedules
from jiyi.protocol.growth import artifacts, identity, pains, self_review, tracking, trajectories

#: Name → request, result, queue. ``models.growth`` and ``models.appointments`` have what each does.
COMMANDS: dict[str, tuple[type[BaseModel], type[BaseModel], str]] = {
    **artifacts.COMMANDS,
    **trajectories.COMMANDS,
    **pains.COMMANDS,
    **identity.COMMANDS,
    **self_review.COMMANDS,
    **tracking.COMMANDS,
    **schedules.COMMANDS,
    **heartbeats.COMMANDS,
}
