"""What tests of growth share: steps taken, experiences told, work done, what grew."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text

from engine.conversations.memories import ExtractionSource
from jiyi.protocol import events as wire
from jiyi.protocol.artifacts import ArtifactKind
from jiyi.protocol.conversations import ExtractedExperience, Message
from jiyi.protocol.proposals import ListProposals, SkillProposal
from models.conversations import experiences
from models.db.connection import unit_of_work
from models.growth import proposals
from models.growth.evolution import WEIGH
from models.growth.trajectories import COMPRESS
from models.growth.work import AGGREGATE, COMPOSE
from models.memory.agents import lock_agents
from models.memory.inbox import StoreResult, store
from models.queue import pending_work
from tasks.framework.work import run_until_idle
from tasks.growth.evolution import aggregate, compose, compress, weigh

START = datetime(2026, 5, 1, 9, tzinfo=UTC)
AGENT = "helper"
WORK = {COMPRESS: compress, COMPOSE: compose, AGGREGATE: aggregate, WEIGH: weigh}
STEPS = ["open the paper tray", "pull the sheet out slowly", "close the tray"]


def save(events: Iterable[wire.Event]) -> StoreResult:
    with unit_of_work() as connection:
        return store(connection, list(events))


def step(
    group: str, index: int, step_type: str = "tool_call", session_id: str = "s1", **fields: Any
) -> wire.Event:
    if step_type.startswith("tool"):
        fields.setdefault("tool", "search")
    at, payload = START + timedelta(seconds=index), {"index": index, "step_type": step_type, **fields}
    return wire.made("turn.step", (group, AGENT), at, payload, session_id=session_id)


def chain(
    group: str,
    session_id: str,
    *tools: str,
    start: int = 0,
    ok: bool = True,
    request: str = "find the invoice",
) -> list[wire.Event]:
    """A request, each tool with its result, an answer."""
    found = [step(group, start, "user_request", session_id, input=request)]
    for tool in tools:
        start += 2
        found.append(step(group, start - 1, "tool_call", session_id, tool=tool, input=f"with {tool}"))
        found.append(step(group, start, "tool_result", session_id, tool=tool, output="done", ok=ok))
    return [*found, step(group, start + 1, "generation", session_id, output="here it is")]


def end(group: str, session_id: str = "s1") -> wire.Event:
    return wire.made("session.ended", (group, AGENT), datetime.now(UTC), {}, session_id=session_id)


def experienced(
    group: str,
    pain: str = "the printer jams on the second tray",
    times: int = 4,
    agent_id: str = AGENT,
    user_id: str | None = None,
    **fields: Any,
) -> None:
    """An experience that was told so many times."""
    lived = {"pain_pattern": pain, "solution_steps": STEPS, "outcome": "success", "confidence": 0.9}
    told = ExtractedExperience.model_validate({**lived, "turns": [0], **fields})
    for time in range(times):
        at = START + timedelta(days=time)
        with unit_of_work() as connection:
            found = lock_agents(connection, [(group, agent_id)])[group, agent_id]
            said, turns = [Message(role="user", text=pain, at=at)], [uuid4()]
            where = (group, agent_id, f"s{time}", said, turns, "rules", "extraction@1")
            source = ExtractionSource(*where, user_id=user_id)
            experiences.keep_extracted(connection, (group, agent_id), told, source, at)
            pending_work.enqueue(connection, AGGREGATE, [(found.agent_key, group)])


def run(*kinds: str) -> int:
    """Do the work of these kinds, or all of growth, in the order in which one sets off the other."""
    return sum(run_until_idle(kind, WORK[kind]) for kind in kinds or WORK)


def owed(kind: str) -> list[Any]:
    work = text("SELECT * FROM pending_work WHERE kind = :kind")
    with unit_of_work() as connection:
        return list(connection.execute(work, {"kind": kind}).mappings())


def artifacts(group: str, kind: ArtifactKind = "skill", **fields: Any) -> list[SkillProposal]:
    with unit_of_work() as connection:
        listed = proposals.find(connection, group, ListProposals(kind=kind, **fields))
    return [proposal for proposal in listed if isinstance(proposal, SkillProposal)]


def feedback(group: str, artifact_id: UUID, sentiment: str = "positive", **fields: Any) -> wire.Event:
    payload = {"artifact": "skill", "artifact_id": artifact_id, "sentiment": sentiment, **fields}
    return wire.made("feedback.given", (group, AGENT), datetime.now(UTC), payload)
