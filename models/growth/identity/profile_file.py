"""The file ``USER``, which follows the profile."""

from __future__ import annotations

from sqlalchemy import Connection

from engine.growth.identity.user_file import notes_of, render
from jiyi.protocol import limits
from jiyi.protocol.growth.identity import IdentityFile
from models.conversations import profiles
from models.growth.identity import versions
from models.memory.agents.agents import AgentName

#: Who wrote a version that only follows the profile.
BY_PROFILE = "profile"


def follow(connection: Connection, name: AgentName) -> IdentityFile:
    """Write what the profile says now, with what people added; nothing where it says the same. Call it under the agent's lock."""
    notes = notes_of(versions.current(connection, name, "USER").content)
    return _write(connection, name, notes, "the profile has changed", BY_PROFILE)


def note(connection: Connection, name: AgentName, notes: str, author: str) -> IdentityFile:
    """Replace what people added. Call it under the agent's lock."""
    return _write(connection, name, notes, "notes", author)


def _write(connection: Connection, name: AgentName, notes: str, reason: str, author: str) -> IdentityFile:
    content = render(profiles.find(connection, name), notes, limits.MAX_IDENTITY_CHARS)
    return versions.write(connection, name, "USER", content, reason=reason, author=author)
