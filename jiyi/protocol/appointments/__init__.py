"""The contract of schedules, heartbeats and alerts."""
