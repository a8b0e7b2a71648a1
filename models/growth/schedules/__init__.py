"""Schedules of agents: their tables, and what is done with them."""
