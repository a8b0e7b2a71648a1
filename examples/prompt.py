"""Whole prompts for two agents at one question, each within a budget: what the group knows is in them.

    python -m examples.prompt

Nobody has to put a prompt together: :meth:`jiyi.Client.context` brings the group's words, who the agent is,
the memories that matter and the question into one text, and says what it had to leave out. Put it before your
LLM.
"""

from __future__ import annotations

from uuid import uuid4

from rich.console import Console

from examples.service import service
from jiyi import Client
from jiyi.polling import poll
from jiyi.protocol.tier_questions import ContextAnswer

SYSTEM = "You sit on the council of a pottery. Say what you would do, and why, in three sentences."
QUESTION = "Shall the pottery fire its cups once or twice? 杯子烧一次还是两次？"
PERSONAS = {
    "Harriet": "You are Harriet, who sells the cups, and whose customers wait.",
    "林岚": "你是林岚，负责烧窑，只相信量过的东西。",
}
#: What somebody has promoted after earlier sessions.
KNOWN = (
    "The new clay shrinks by seven percent, measured twice; the supplier had never mentioned it.",
    "裁决：薄杯子烧一次，厚杯子烧两次。",
    "Of the forty thick cups that were fired once, eleven cracked within a month.",
)
#: Tokens: enough for all of it, and for hardly more than the question.
BUDGETS = (600, 130)
SECONDS = 30.0


def prompts(client: Client, persona: str) -> list[ContextAnswer]:
    """The same question with each budget."""
    return [
        client.knowledge.context(
            proposal=QUESTION, system=SYSTEM, persona=persona, budget=budget, relevance_threshold=-1
        )
        for budget in BUDGETS
    ]


def known(client: Client) -> None:
    """What was promoted, as soon as it can be found by its meaning."""
    for text in KNOWN:
        client.knowledge.promote(text=text)
    poll(lambda: client.query_memory(QUESTION).tiers[-1].message, lambda waiting: not waiting, SECONDS)


def main() -> None:
    console = Console(highlight=False)
    with service(), Client(f"prompt-{uuid4().hex[:8]}") as client:
        known(client)
        for name, persona in PERSONAS.items():
            for made in prompts(client, persona):
                console.rule(f"{name}: {made.tokens} of {made.budget} tokens, {len(made.memories)} memories")
                console.print(made.text, *made.cut, sep="\n", markup=False)


if __name__ == "__main__":
    main()
