"""Requests and answers of the commands on heartbeats and alerts, and the health of the whole."""

from __future__ import annotations

from datetime import datetime, time
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from jiyi.protocol.appointments.schedules import TimeZone
from jiyi.protocol.base import DEFAULT_PAGE, Name, PageSize, Request

Urgency = Literal["low", "medium", "high"]
Channel = Literal["ui", "desktop", "all"]
Proactivity = Literal["silent", "light", "standard", "autonomous"]
Minutes = Annotated[int, Field(ge=1, le=10_080, description="Minutes between two ticks: up to a week.")]
Clock = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="A time of day, such as 22:00.")]

#: Alerts of one tick at most, unless told otherwise; and the most that may be told.
ALERTS, MOST_ALERTS = 5, 50
#: Alerts that one command acknowledges.
MOST_ACKNOWLEDGED = 500


class QuietHours(BaseModel):
    """Hours in which alerts wait, in the agent's time zone; they may cross midnight."""

    start: Clock
    end: Clock

    @model_validator(mode="after")
    def _some_hours(self) -> QuietHours:
        if self.start == self.end:
            raise ValueError("end: must differ from start; for no quiet hours give null")
        return self

    @property
    def times(self) -> tuple[time, time]:
        return time.fromisoformat(self.start), time.fromisoformat(self.end)


class HeartbeatConfig(BaseModel):
    """How often an agent looks after itself, and how it speaks up."""

    enabled: bool = False
    interval_minutes: int = 30
    quiet_hours: QuietHours | None = QuietHours(start="22:00", end="08:00")
    tz: str = "UTC"
    channel: Channel = "ui"
    proactivity: Proactivity = "standard"
    max_alerts: int = ALERTS


class ConfigureHeartbeat(Request):
    """What is to change of an agent's heartbeat; what is left out stays. ``quiet_hours`` null, or off: none."""

    agent_id: Name
    enabled: bool | None = None
    interval_minutes: Minutes | None = None
    quiet_hours: QuietHours | Literal["off"] | None = None
    tz: TimeZone | None = None
    channel: Channel | None = None
    proactivity: Proactivity | None = None
    max_alerts: int | None = Field(None, ge=1, le=MOST_ALERTS)

    @model_validator(mode="before")
    @classmethod
    def _null_is_off(cls, given: Any) -> Any:
        """Calls over the broker leave nulls out, so that one that is meant has a word."""
        if isinstance(given, dict) and "quiet_hours" in given and given["quiet_hours"] is None:
            return {**given, "quiet_hours": "off"}
        return given


class HeartbeatState(BaseModel):
    """An agent's heartbeat: how it is configured, and when it beat last and beats next."""

    agent_id: str
    config: HeartbeatConfig
    last_tick_at: datetime | None = None
    next_tick_at: datetime | None = None
    last_interaction_at: datetime | None = None
    corrections: dict[str, int] = {}
    quiet_now: bool = False
    open_alerts: int = 0


class AlertState(BaseModel):
    """One alert."""

    id: UUID
    agent_id: str
    title: str
    content: str
    urgency: Urgency
    source: str
    channel: Channel
    timestamp: datetime
    deliver_at: datetime
    delivered_at: datetime | None
    acknowledged_at: datetime | None


class TickState(BaseModel):
    """What one tick found."""

    due_at: datetime
    ran_at: datetime
    status: Literal["ok", "alert"]
    alerts: int
    quiet: bool
    checks: dict[str, Any]


class TickResult(BaseModel):
    """A tick that was asked for, and the alerts that it made."""

    tick: TickState
    alerts: list[AlertState]


class ListTicks(Request):
    agent_id: Name
    limit: PageSize = DEFAULT_PAGE


class Ticks(BaseModel):
    ticks: list[TickState]


class ListAlerts(Request):
    """Alerts that are open, or ``everything``; of one agent, or of all."""

    agent_id: Name | None = None
    everything: bool = False
    after: UUID | None = None
    limit: PageSize = DEFAULT_PAGE


class Alerts(BaseModel):
    alerts: list[AlertState]
    next: UUID | None = None


class AcknowledgeAlerts(Request):
    ids: list[UUID] = Field(min_length=1, max_length=MOST_ACKNOWLEDGED)


class Acknowledged(BaseModel):
    acknowledged: int


class CorrectAgent(Request):
    """The user said that the agent got something wrong."""

    agent_id: Name
    kind: str = Field(min_length=1, max_length=100, description="What it got wrong, such as tone or facts.")


class Health(BaseModel):
    """Memory, heartbeat and growth of a group, or of one agent, at one moment."""

    at: datetime
    memory: dict[str, Any]
    heartbeat: dict[str, Any]
    growth: dict[str, Any]


class HealthRequest(Request):
    agent_id: Name | None = None
