"""``client.growth``: what the group's agents learned from what worked, and what people think of it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from jiyi.client.calls import Calls, Id, checked
from jiyi.errors import InvalidRequest
from jiyi.growth.feedback.trust import Sentiment, Signal
from jiyi.growth.skills.types import ArtifactKind
from jiyi.protocol.growth.artifacts import GiveFeedback, GivenFeedback, Hint, HintQuery
from jiyi.protocol.growth.catalogue import COMMANDS
from jiyi.protocol.growth.schedules import CreatedSchedule


class Growth:
    """The group's agents' growth."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def command(self, name: str, timeout: float | None = None, **fields: Any) -> BaseModel:
        """The result of one of the commands of ``docs/growth.md``, such as ``command("skill_list", agent_id="companion")``.

        Raises:
            InvalidRequest: there is no such command, or with a sentence per wrong field.
        """
        if name not in COMMANDS:
            raise InvalidRequest([f"name: no command {name!r}"])
        request, result, queue = COMMANDS[name]
        return result.model_validate(self._calls.act(name, checked(request, **fields), timeout, queue=queue))

    def schedule(
        self, agent_id: str, text: str, *, tz: str | None = None, session_id: str | None = None, timeout: float | None = None
    ) -> CreatedSchedule:
        """Take down what a message asks for: "remind me tomorrow at 9", 每天早上9点提醒我查房."""
        found = self.command("schedule_create", timeout, agent_id=agent_id, text=text, tz=tz, session_id=session_id)
        assert isinstance(found, CreatedSchedule)
        return found

    def hint(self, agent_id: str, timeout: float | None = None) -> Hint:
        """The candidate that waits to be confirmed, as a line for a prompt; empty if none waits."""
        return Hint.model_validate(self._calls.ask("evolution_hint", checked(HintQuery, agent_id=agent_id), timeout))

    def feedback(
        self,
        artifact: ArtifactKind,
        artifact_id: Id,
        sentiment: Sentiment,
        *,
        signal: Signal = "explicit",
        comment: str | None = None,
        timeout: float | None = None,
    ) -> GivenFeedback:
        """Vote on a skill, or on a workflow (``pipeline``); gives the trust that it comes to."""
        request = checked(GiveFeedback, artifact=artifact, artifact_id=artifact_id, sentiment=sentiment, signal=signal, comment=comment)
        return GivenFeedback.model_validate(self._calls.act("feedback_give", request, timeout))
