"""Conversations for unit tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from jiyi.protocol.base import Role
from jiyi.protocol.conversations import Message


def messages_of(texts: Sequence[str], at: datetime | None = None) -> list[Message]:
    """A user's messages, a minute apart; those that begin with ``> `` are the assistant's."""
    roles: list[Role] = ["assistant" if text.startswith("> ") else "user" for text in texts]
    times = [at and at + timedelta(minutes=number) for number in range(len(texts))]
    return [
        Message(role=role, text=text.removeprefix("> "), at=time)
        for role, text, time in zip(roles, texts, times, strict=True)
    ]
