"""Appointments: what messages ask of them, when they run, and an agent's own regular checks."""
