"""Heartbeats of agents and their alerts: tables, and what is done with them."""
