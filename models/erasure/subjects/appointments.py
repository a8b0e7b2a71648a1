"""Erasure in what agents do by themselves: schedules, alerts, ticks of heartbeats. All of an agent's go with it."""

from __future__ import annotations

#: Tables that are looked through for names: table, key, texts, whose rows, what becomes of those that are found.
SCRUBBED = (
    (
        "schedules",
        "schedule_id::text",
        "task_description, natural_description, target_id, session_id",
        "group_id = :group",
        "DELETE FROM schedules",
    ),
    ("alerts", "alert_id::text", "title, content, subject", "group_id = :group", "DELETE FROM alerts"),
    ("heartbeats", "agent_id", "corrections::text", "group_id = :group", "UPDATE heartbeats SET corrections = '{}'"),
)
