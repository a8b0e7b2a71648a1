"""Schedules, heartbeats and alerts as they are stored, and the actions on them."""
