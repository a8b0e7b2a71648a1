"""Tasks of schedules and heartbeats."""
