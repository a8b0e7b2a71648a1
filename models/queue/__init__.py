"""Pending work, wake-ups, dead letters, ticks, and the news of what was committed."""
