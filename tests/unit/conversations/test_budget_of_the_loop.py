"""All that the loop puts into a prompt keeps to one budget: the hint, what is remembered, the confirmation of an appointment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jiyi.chat.loop import ConversationLoop
from jiyi.protocol.appointments.schedules import AskedSchedules
from jiyi.protocol.conversations.injection import InjectedContext
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.prompting import quoted

HINT = '[A skill was learned and waits to be confirmed: "watering". About: "the ferns". If it fits, ask the user once.]'
NOTED = "Noted: water the ferns, every day at 09:00. Next: 2026-11-24 09:00 (Asia/Shanghai)."
REMEMBERED = "Mia waters the ferns. 米娅每周给蕨类植物浇水。 " * 400
ASKS, ONLY_TELLS = "Remind me every day at 9 to water the ferns", "What did I say about the ferns?"


class Service:
    """A client whose every answer takes as much room as it may."""

    group = "g"

    def __init__(self) -> None:
        self.conversations = self.growth = self
        self.most: list[int] = []

    def inject(self, agent_id: str, user_input: str, *, base_prompt: str, max_tokens: int, **_: Any) -> InjectedContext:
        self.most.append(max_tokens)
        context = cut_to_tokens(REMEMBERED, max_tokens)
        return InjectedContext(
            context=context, tokens=estimate_tokens(context), intent="general", memories=[], prompt=f"{base_prompt}\n\n{context}".strip()
        )

    def hint(self, agent_id: str, *, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(text=HINT)

    def schedule(self, agent_id: str, text: str, **_: Any) -> AskedSchedules:
        return AskedSchedules(certainty="exact", confirmation=NOTED if text == ASKS else None)

    def observe_many(self, observations: Any, /) -> list[object]:
        return []


@pytest.mark.parametrize("budget", [1, 2, 10, 40, 100, 500, 2_000])
@pytest.mark.parametrize("said", [ASKS, ONLY_TELLS])
def test_hint_memories_and_confirmation_share_the_budget(said: str, budget: int) -> None:
    service: Any = Service()
    with ConversationLoop(service, max_tokens=budget, seconds=30) as loop:
        prompt = loop.before_completion("mia", "", said, session_id="s")
    assert estimate_tokens(prompt) <= budget
    if budget >= 500:
        assert HINT in prompt
        assert "蕨类植物" in prompt
        assert (f"[schedule] {quoted(NOTED)}" in prompt) == (said == ASKS)


def test_without_hint_or_appointment_memories_have_all_of_it() -> None:
    service: Any = Service()
    with ConversationLoop(service, max_tokens=500, seconds=30) as loop:
        loop.before_completion("mia", "You are kind.", ONLY_TELLS)
    assert service.most == [500]


def test_without_growth_nothing_of_it_is_asked_for_or_published() -> None:
    service: Any = Service()
    published: list[Any] = []
    service.observe_many = published.extend
    service.growth = None
    with ConversationLoop(service, growth=False, seconds=30) as loop:
        prompt = loop.before_completion("mia", "", ASKS, session_id="s")
        loop.step("mia", "s", "tool_call", tool="search")
        loop.after_completion("mia", [{"role": "user", "content": ASKS}, {"role": "assistant", "content": "Done."}], "s")
    assert "蕨类植物" in prompt
    assert HINT not in prompt
    assert {event["type"] for event in published} == {"turn.recorded"}
