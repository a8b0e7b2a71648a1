"""The modules that say what events become, in the order in which they see a batch. ``models.memory.event_types`` says how."""

from __future__ import annotations

from models.conversations import extraction_schedule
from models.erasure import refusal
from models.growth import feedback, self_review_schedule, trajectories
from models.reflection import reflections
from models.retrieval import enlargement
from models.tiers import quarantine

HANDLERS = (refusal, extraction_schedule, trajectories, feedback, reflections, self_review_schedule, enlargement, quarantine)
