"""The modules that say what events become (``models.memory.event_types``), in their order."""

from __future__ import annotations

from importlib import import_module

from engine import subjects
from models.conversations import experiences, extraction_schedule
from models.erasure import refusal
from models.reflection import reflections
from models.retrieval import enlargement

HANDLERS = (
    *(refusal, extraction_schedule, reflections, enlargement, experiences),
    *(import_module(module) for subject in subjects.on() for module in subject.handlers),
)
