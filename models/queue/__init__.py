"""Pending work, wake-ups, dead letters, ticks, and live events of what was committed."""
