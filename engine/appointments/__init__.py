"""Appointments: what messages ask of them, when they run, and what an agent looks after by itself."""
