"""What grew, in prompts: approved identity files, the index of enabled skills, and skills that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, or_, select

from engine.conversations.stable import Basis
from engine.growth.questions import file_section, notes_of
from engine.growth.skills import fit, index_line, skill_section
from jiyi.protocol.conversations import InjectedSkill
from jiyi.protocol.identity import File
from jiyi.text.prompt import Line, Section
from jiyi.text.words import Language
from models.conversations.session_prompts import Grown, prompt_source
from models.growth import identity
from models.growth.tables import ProposalRow
from models.memory.agents import AgentName

#: Enabled skills of an agent that are looked at, the oldest.
MAX_SKILLS = 100
_HEADINGS: dict[Language, tuple[str, str]] = {
    "en": ("## Notes on the user", "## Skills"),
    "zh": ("## 关于用户的备注", "## 技能"),
}
#: Files that are instructions, in the order in which they open a prompt.
_INSTRUCTIONS: tuple[File, ...] = ("SOUL", "AGENTS")
_P = ProposalRow
_SAYS = (
    _P.content["name"].astext.label("name"),
    _P.content["triggers"].label("triggers"),
    _P.content["body"].astext.label("body"),
)


@prompt_source
def grown(connection: Connection, name: AgentName, user_id: str | None, language: Language) -> Grown:
    """SOUL, AGENTS, notes on the one user, the index of enabled skills; skills that fit, best first."""
    files = identity.current_files(connection, name)
    skills = enabled_skills(connection, name, user_id)
    opening = [
        file_section(file, files[file].content, Basis((f"identity:{file}:{files[file].version}",)))
        for file in _INSTRUCTIONS
    ]
    notes_heading, skills_heading = _HEADINGS[language]
    of_user = notes_of(files["USER"].content) if user_id is None else ""
    notes = [Line(line, item=Basis((f"identity:USER:{line}",))) for line in of_user.splitlines()]
    index = [index_line(row.name, row.triggers, Basis((f"skill:{row.proposal_id}",))) for row in skills]

    def fitting(query: str) -> list[Section]:
        fits = [(fit(row.triggers, query), row) for row in skills]
        return [
            skill_section(row.name, row.body, InjectedSkill(id=row.proposal_id, name=row.name))
            for fitted, row in sorted(fits, key=lambda pair: -pair[0])
            if fitted
        ]

    return Grown([*opening, Section(notes_heading, notes), Section(skills_heading, index)], fitting)


def enabled_skills(connection: Connection, name: AgentName, user_id: str | None) -> Sequence[Any]:
    """Skills visible to a user: the agent's, and those that rest on what this user said in private."""
    conditions = (
        _P.group_id == name[0],
        _P.agent_id == name[1],
        _P.kind == "skill",
        _P.status == "approved",
        _P.enabled,
    )
    visible = _P.user_id.is_(None) if user_id is None else or_(_P.user_id.is_(None), _P.user_id == user_id)
    return connection.execute(
        select(_P.proposal_id, *_SAYS).where(*conditions, visible).order_by(_P.proposal_id).limit(MAX_SKILLS)
    ).all()
