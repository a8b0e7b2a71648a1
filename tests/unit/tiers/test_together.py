"""The parts of the three tiers, put together as the service will, with lists for tables: a debate of two sessions.

Middleware → event → filters → working memory → gathering → merging → node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from engine.tiers.answer import gather, merge
from engine.tiers.promotion import plan
from engine.tiers.screening import Candidate, IngressRules, KnownEntry, screen
from jiyi.errors import JiyiError
from jiyi.protocol.events import NodeExecuted
from jiyi.protocol.tiers.query import Item, MemoryAnswer, MemoryQuestion, kind_of
from jiyi.text.words import content_digest
from jiyi.tiers.middleware import MemoryMiddleware
from jiyi.tiers.retrieval_node import MemoryRetrievalNode, NodeEvent

NOW = datetime.now(UTC)


class Service:
    """What publishes and answers, all in this process."""

    def __init__(self) -> None:
        self.quarantine: dict[str, list[NodeExecuted]] = defaultdict(list)
        self.working: dict[str, list[Item]] = defaultdict(list)
        self.longterm: dict[str, list[Item]] = defaultdict(list)
        self.rejected: list[str] = []
        self.away: set[str] = set()

    def observe_many(self, observations: Iterable[dict[str, Any]], /) -> list[Any]:
        for observation in observations:
            event = NodeExecuted.model_validate(observation)
            said = event.payload
            self.quarantine[event.group_id].append(event)
            known = [KnownEntry(item.item_id, content_digest(item.content)) for item in self.working[event.group_id]]
            verdict = screen(Candidate(said.output, said.confidence, said.flags), IngressRules(), known)
            if not verdict.accepted:
                self.rejected.append(f"{said.node_id}: {verdict.reason}")
                continue
            self.working[event.group_id].insert(
                0,
                Item(
                    item_id=str(event.event_id),
                    source="hot",
                    content=said.output,
                    score=1,
                    created_at=event.occurred_at,
                    kind=kind_of(said.node_type, said.metadata),
                    session_id=event.session_id,
                ),
            )
        return []

    def promote(self, group_id: str, text: str) -> None:
        for piece in plan(text, group_id=group_id, promoted_at=NOW):
            item = Item(item_id=str(piece.knowledge_id), source="cold", content=piece.content, score=0.9, verified=True)
            self.longterm[group_id].append(item)

    def query_memory(self, query: str, *, group_id: str, timeout: float | None = None, **options: Any) -> MemoryAnswer:
        question = MemoryQuestion(query=query, **options)

        def read(tier: str, items: list[Item]) -> list[Item]:
            if tier in self.away:
                raise JiyiError(f"{tier} is away")
            return items

        found = gather(
            {"working": lambda: read("working", self.working[group_id]), "longterm": lambda: read("longterm", self.longterm[group_id])}, 30
        )
        results = merge(found.items["working"], found.items["longterm"], question, datetime.now(UTC))
        return MemoryAnswer(results=results, tiers=list(found.tiers.values()))


FOR = "正方：应当先烧一次，因为新土收缩得慢，釉面不会开裂，而且能按期交货。"
AGAINST = "Against: a second firing is needed, since the first one never reaches the heart of a thick cup."
VERDICT = "裁决：用新土在一千二百度烧一次，按期交货；若仍开裂，下一批改釉，并且记录每一窑的温度。"


def debate(service: Service, group_id: str, session_id: str) -> list[str]:
    """Three nodes, each after the history of those before; the histories."""
    histories = []
    node = MemoryRetrievalNode(retriever=service)
    with MemoryMiddleware(service) as memory:
        for node_id, kind, text in (("for", "agent", FOR), ("against", "agent", AGAINST), ("judge", "verdict", VERDICT)):
            state = node.process({"topic": "Shall we fire once?", "group_id": group_id, "session_id": session_id})
            histories.append(state["history_context"])
            memory.after_node(
                node_id, {"content": text, "metadata": {"confidence": 0.9}}, group_id=group_id, session_id=session_id, node_type=kind
            )
            memory.after_node("tool", "ok", group_id=group_id, session_id=session_id)
            assert memory.flush(30)
    return histories


def test_later_rounds_know_the_earlier_ones_and_later_sessions_the_verdict() -> None:
    service = Service()
    first, second, third = debate(service, "council", "s1")
    assert first == ""
    assert FOR in second
    assert AGAINST not in second
    assert third.index(AGAINST) < third.index(FOR)  # newest first
    assert len(service.quarantine["council"]) == 6
    assert service.rejected == ["tool: too_short"] * 3

    service.promote("council", VERDICT)
    service.working.clear()  # a day later
    later = debate(service, "council", "s2")
    assert f'### 记录 1 (相关度: 0.90)\n"{VERDICT}"' in later[0]
    assert debate(service, "another council", "s3")[0] == ""


def test_quarantine_is_never_shown() -> None:
    service = Service()
    debate(service, "council", "s1")
    shown = MemoryRetrievalNode({"max_results": 100}, retriever=service).process({"topic": "tool", "group_id": "council"})
    assert '\n"ok"\n' not in shown["history_context"]


def test_each_tier_answers_without_the_other_and_the_workflow_without_both() -> None:
    service, events = Service(), list[NodeEvent]()
    debate(service, "council", "s1")
    service.promote("council", "A precedent: in March the kiln was fired once, and nothing cracked.")
    inputs = {"topic": "precedent", "group_id": "council"}
    for away, expected in (({"working"}, "precedent"), ({"longterm"}, VERDICT), ({"working", "longterm"}, "")):
        service.away = away
        events.clear()
        history = MemoryRetrievalNode(retriever=service).process(inputs, events.append)["history_context"]
        assert expected in history
        assert bool(history) == bool(expected)
        told = [event["data"]["tier"] for event in events if event["event"] == "memory_retrieval_error"]
        assert set(told) == away
        assert events[-1]["data"]["status"] == "completed"
