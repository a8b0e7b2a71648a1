"""What grew, in prompts: approved identity files and the index of enabled skills in the stable part, and the texts of skills that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, or_, select

from engine.conversations.stable import Line, Section
from engine.growth.questions import notes_of
from engine.growth.skills import fit, index_line, told
from jiyi.protocol.conversations import InjectedSkill
from jiyi.protocol.identity import File
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompting import PREFACE, quoted, visible
from jiyi.text.words import Language, language_of
from models.conversations.session_prompts import Fitting, recalled_source, stable_source
from models.growth import identity
from models.growth.tables import Artifact
from models.memory.agents import AgentName

#: Enabled skills of an agent that are looked at, the oldest.
MAX_SKILLS = 100
_HEADINGS: dict[Language, tuple[str, str]] = {"en": ("## Notes on the user", "## Skills"), "zh": ("## 关于用户的备注", "## 技能")}
#: Files that are instructions, in the order in which they open a prompt.
_INSTRUCTIONS: tuple[File, ...] = ("SOUL", "AGENTS")
_A = Artifact


@stable_source
def sections(connection: Connection, name: AgentName, user_id: str | None, language: Language) -> list[Section]:
    """SOUL and AGENTS, people's notes on the agent's one user, and names and triggers of enabled skills."""
    files = identity.current_files(connection, name)
    opening = []
    for file in _INSTRUCTIONS:
        lines = [Line(visible(line), (f"identity:{file}:{files[file].version}",)) for line in files[file].content.strip().splitlines()]
        opening.append(Section(f"<{file}>", tuple(lines), f"</{file}>", opens=True))
    notes_heading, skills_heading = _HEADINGS[language]
    of_user = notes_of(files["USER"].content) if user_id is None else ""
    notes = [Line(quoted(line), (f"identity:USER:{line}",)) for line in of_user.splitlines() if line.strip()]
    skills = [Line(index_line(row.name, row.triggers), (f"skill:{row.artifact_id}",)) for row in _enabled(connection, name, user_id)]
    return [*opening, Section(notes_heading, tuple(notes)), Section(skills_heading, tuple(skills))]


@recalled_source
def fitting(connection: Connection, name: AgentName, user_id: str | None, query: str, most: int) -> Fitting:
    """The texts of enabled skills whose triggers fit the message, the best first."""
    fits = [(fit(row.triggers, query), row) for row in _enabled(connection, name, user_id)]
    preface = PREFACE[language_of(query)]
    texts, skills = [preface], []
    room = most - estimate_tokens(preface)
    for fitted, row in sorted(fits, key=lambda pair: -pair[0]):
        text = told(row.name, row.body, room) if fitted else ""
        if text:
            room -= estimate_tokens(text)
            texts.append(text)
            skills.append(InjectedSkill(id=row.artifact_id, name=row.name))
    return Fitting("\n".join(texts), skills) if skills else Fitting()


def _enabled(connection: Connection, name: AgentName, user_id: str | None) -> Sequence[Any]:
    """Skills that a user may be told: the agent's, and those that rest on what this user said in private."""
    wanted = (_A.group_id == name[0], _A.agent_id == name[1], _A.artifact == "skill", _A.status == "accepted", _A.enabled)
    told = _A.user_id.is_(None) if user_id is None else or_(_A.user_id.is_(None), _A.user_id == user_id)
    return connection.execute(
        select(_A.artifact_id, _A.name, _A.triggers, _A.body).where(*wanted, told).order_by(_A.artifact_id).limit(MAX_SKILLS)
    ).all()
