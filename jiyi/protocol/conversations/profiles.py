"""A user's profile: what signals add to it, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel

from jiyi.protocol.conversations.types import PROFILE_ENTRIES, ProfileSignals
from jiyi.text.words import Language, normalise


class Profile(BaseModel):
    """What is known about a user; lists hold up to ten entries, newest first, each once."""

    industry: str | None = None
    role: str | None = None
    expertise_level: str | None = None
    communication_style: str | None = None
    recent_topics: list[str] = []
    pain_points: list[str] = []
    preferred_tools: list[str] = []
    updated_at: datetime | None = None


LABELS: dict[Language, dict[str, str]] = {
    "en": {
        "industry": "industry",
        "role": "role",
        "expertise_level": "expertise",
        "communication_style": "style",
        "recent_topics": "recent topics",
        "pain_points": "pain points",
        "preferred_tools": "tools",
    },
    "zh": {
        "industry": "行业",
        "role": "角色",
        "expertise_level": "专业水平",
        "communication_style": "沟通风格",
        "recent_topics": "近期话题",
        "pain_points": "痛点",
        "preferred_tools": "常用工具",
    },
}


def merged(known: Profile, signals: ProfileSignals) -> Profile:
    """The profile with what was told: a new value replaces the old one, lists grow at their head."""
    changed = {}
    for name in ProfileSignals.model_fields:
        new, old = getattr(signals, name), getattr(known, name)
        changed[name] = _newest(new, old) if isinstance(new, list) else new or old
    return known.model_copy(update=changed)


def lines(profile: Profile, language: Language) -> list[str]:
    """The profile in lines, without what is not known."""
    told = []
    for name, label in LABELS[language].items():
        value = getattr(profile, name)
        if value:
            told.append(f"{label}: {', '.join(value) if isinstance(value, list) else value}")
    return told


def _newest(new: Sequence[str], old: Sequence[str]) -> list[str]:
    entries: dict[str, str] = {}
    for entry in (*new, *old):
        entries.setdefault(normalise(entry).strip(), entry)
    return list(entries.values())[:PROFILE_ENTRIES]
