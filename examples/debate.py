"""A debate with memory, offline: no LLM, no key, no network.

    python -m examples.debate

Shall the pottery fire its cups once or twice? Two speakers and a judge, three rounds. Before each speaks,
:class:`jiyi.tiers.retrieval_node.MemoryRetrievalNode` brings what the group knows (``history_context``);
after each,
:class:`jiyi.tiers.middleware.MemoryMiddleware` remembers what was said. The speakers are a few lines of
Python instead of an LLM, and know of each other's words only what their history has.

Days later a second session finds the verdict, which somebody has promoted meanwhile; another group finds
nothing. What is claimed is checked: the exit code is 0 only if all of it is true.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from examples.service import service
from jiyi import Client
from jiyi.protocol.tier_questions import MemoryAnswer, TierItem
from jiyi.tiers.middleware import MemoryMiddleware
from jiyi.tiers.retrieval_node import MemoryRetrievalNode, NodeEvent

TOPIC = "Shall the pottery fire its cups once or twice? 杯子烧一次还是两次？"
#: Seconds until what was said has to be in working memory; it takes a fraction of one.
SETTLED_SECONDS = 30.0
POLL_SECONDS = 0.05
#: The second session comes so much later: working memory has forgotten everything by then.
LATER = timedelta(days=3)

#: (speaker, confidence, what is said when nothing is known yet)
OPENINGS = (
    (
        "proponent",
        0.92,
        "Fire the cups once: the new clay shrinks slowly, so the glaze holds, and all are ready on Friday.",
    ),
    (
        "opponent",
        0.88,
        "先素烧一次再上釉：厚杯子的芯子第一次烧不透，湿气会在第二天把釉面顶裂，上个月裂了十一只。",
    ),
)
#: A remark that nobody has checked, and one too short to mean anything: they are kept, but never shown to an
#: agent.
DOUBTFUL = (
    "proponent",
    0.4,
    "Somebody at the market said that the neighbours fire everything once, and never had a crack.",
)
SHORT = ("opponent", 0.99, "Hear, hear.")
VERDICT = (
    "裁决：薄杯子烧一次，厚杯子烧两次。 Verdict after {weighed} statements: fire thin cups once and thick"
    " ones twice."
)

#: A record of the history as the node writes it: its text, a JSON string.
_RECORD = re.compile(r"^### [^\n]+\n(.+)$", re.MULTILINE)


@dataclass(slots=True)
class Debate:
    """One run: where it prints, and what turned out not to be true."""

    client: Client
    group: str
    console: Console
    wrong: list[str] = field(default_factory=list)

    def claim(self, sentence: str, true: object) -> None:
        self.console.print(
            f"[green]✓[/green] {sentence}" if true else f"[bold red]✗ {sentence}[/bold red]", highlight=False
        )
        if not true:
            self.wrong.append(sentence)

    def history(self, session: str, group: str = "", retriever: Any = None, **properties: Any) -> str:
        """What a node of the workflow would hand to the agent after it."""
        events: list[NodeEvent] = []
        wanted = {"max_results": 20, **properties}
        node = MemoryRetrievalNode(wanted, retriever=retriever or self.client, node_id="load-history")
        state = node.process(
            {"topic": TOPIC, "group_id": group or self.group, "session_id": session}, events.append
        )
        for event in events:
            self.console.print(f"[dim]{event['event']} {event['data']}[/dim]", highlight=False)
        return str(state["history_context"])

    def show(self, title: str, history: str) -> None:
        self.console.print(
            Panel(Text(history.strip() or "(empty)"), title=f"history_context · {title}", title_align="left")
        )


def rounds(debate: Debate, session: str) -> str:
    """Three rounds; the verdict."""
    with MemoryMiddleware(debate.client, on_failure=debate.wrong.append) as memory:

        def say(
            speaker: str, confidence: float, text: str, node_type: str = "agent", *, heard: bool = True
        ) -> None:
            output = {"content": text, "metadata": {"confidence": confidence, "agent_id": speaker}}
            memory.after_node(speaker, output, group_id=debate.group, session_id=session, node_type=node_type)
            debate.console.print(f"[bold]{speaker}[/bold]: {text}", highlight=False)
            memory.flush()
            if heard:
                debate.claim(f"what the {speaker} said is in working memory", settled(debate, text))

        debate.console.rule("Round 1: openings")
        debate.claim("before the first word the history is empty", debate.history(session) == "")
        for opening in OPENINGS:
            say(*opening)
        say(*DOUBTFUL, heard=False)
        say(*SHORT, heard=False)

        debate.console.rule("Round 2: answers")
        for speaker, confidence, _ in OPENINGS:
            history = debate.history(session)
            debate.show(f"what the {speaker} knows in round 2", history)
            said = [
                text
                for text in statements_in(history)
                if text in {text for who, _, text in OPENINGS if who != speaker}
            ]
            debate.claim(f"the {speaker} knows from working memory what the other one said", said)
            say(speaker, confidence, answer_to(speaker, said[0] if said else ""))

        debate.console.rule("Round 3: the verdict")
        history = debate.history(session)
        debate.show("what the judge knows", history)
        statements = statements_in(history)
        debate.claim("the judge knows all four statements", len(statements) == 4)
        kept_out = not {DOUBTFUL[2], SHORT[2]} & set(statements)
        debate.claim("the doubtful remark and the short one are in quarantine only", kept_out)
        verdict = VERDICT.format(weighed=len(statements))
        say("judge", 0.95, verdict, "verdict")
    debate.claim(
        "nothing of the workflow was lost or refused", memory.counts.published == 7 and not memory.counts.lost
    )
    return verdict


def statements_in(history: str) -> list[str]:
    """What was said, as it was said."""
    return [json.loads(found) for found in _RECORD.findall(history)]


def answer_to(speaker: str, said: str) -> str:
    """What a speaker makes of the other's words, which it has from its history."""
    if speaker == "proponent":
        return (
            f"To “{said[:24]}…”: the eleven cups were thick ones. Let the thick ones have two firings, and"
            " the rest one."
        )
    return f"对于“{said[:24]}…”：薄杯子我同意一次烧成；厚杯子必须烧两次，否则星期五交出去的又是裂的。"


def settled(debate: Debate, text: str) -> TierItem | None:
    """The entry of working memory with this text, as soon as it is there."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while time.monotonic() < deadline:
        answer = debate.client.query_memory(TOPIC, group_id=debate.group, max_results=20)
        found = next((item for item in answer.results if item.content == text), None)
        if found is not None:
            return found
        time.sleep(POLL_SECONDS)
    return None


class Later:
    """The same memory, asked some days from now: nodes take whatever can answer."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def query_memory(
        self, query: str, *, group_id: str, timeout: float | None = None, **options: Any
    ) -> MemoryAnswer:
        now = datetime.now(UTC) + LATER
        return self.client.query_memory(query, group_id=group_id, timeout=timeout, now=now, **options)


def promote(debate: Debate, verdict: str) -> None:
    """One click on the admin's page; here by hand. Twice, since people click twice."""
    debate.console.rule("Somebody promotes the verdict")
    entry = settled(debate, verdict)
    debate.claim("the verdict can be found to be promoted", entry)
    if entry is None:
        return
    first, again = (
        debate.client.knowledge.promote(entry_ids=[entry.item_id], kind="verdict") for _ in range(2)
    )
    same = [piece.knowledge_id for piece in first.pieces] == [piece.knowledge_id for piece in again.pieces]
    debate.claim("promoted twice, it is known once", same and all(piece.known for piece in again.pieces))


def later(debate: Debate, verdict: str) -> None:
    """A second session of the same group, and one of another group, days later."""
    debate.console.rule(f"{LATER.days} days later: another session")
    retriever = Later(debate.client)
    history = until(lambda: debate.history("second", retriever=retriever))
    debate.show("the second session of the same group", history)
    debate.claim("it finds the verdict", verdict in statements_in(history))
    debate.claim("and nothing of the rest, which nobody has promoted", len(statements_in(history)) == 1)
    debate.console.rule(f"{LATER.days} days later: another group")
    history = debate.history("first", group=f"{debate.group}-other", retriever=retriever)
    debate.show("another group", history)
    debate.claim("another group finds nothing", history == "")


def until(found: Callable[[], str]) -> str:
    """What is found, as soon as there is something; promoted texts get their vectors from a task."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while not (text := found()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return text


def play(console: Console, group: str) -> list[str]:
    """The whole debate; the claims that were not true."""
    with Client(group) as client:
        debate = Debate(client, group, console)
        verdict = rounds(debate, "first")
        promote(debate, verdict)
        later(debate, verdict)
    return debate.wrong


def main() -> int:
    console = Console(highlight=False)
    with console.status("looking for a service, or starting one …"):
        running = service()
        own = running.__enter__()
    try:
        console.print(
            "[dim]a service of its own, for this debate[/dim]"
            if own
            else "[dim]the service that runs here[/dim]"
        )
        wrong = play(console, f"debate-{uuid4().hex[:8]}")
    finally:
        running.__exit__(None, None, None)
    console.rule("All of it is true" if not wrong else f"{len(wrong)} claims are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
