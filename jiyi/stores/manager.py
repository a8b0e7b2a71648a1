"""What a graph's node does with its stores: load, retrieve, update, save; and what was found in words for an
agent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypedDict

from jiyi.errors import JiyiError, kind_and_words
from jiyi.protocol.stores import Hit, LogOperation, OperationType, Snapshot, StoreUse, WrittenItem
from jiyi.stores.declarations import MemoryAttachmentConfig, Stage, stage_of
from jiyi.stores.snapshots import snapshot_of
from jiyi.stores.store import Payload, Store, StoreQuestion
from jiyi.stores.types import Fidelity
from jiyi.text.prompt import MAX_BUDGET, Line, PromptStyle, Section, compose
from jiyi.text.prompting import one_line
from jiyi.text.words import Language, language_of, tokens

log = logging.getLogger(__name__)

#: Output or input of a node: a text, messages, or their snapshot.
NodeContent = str | Sequence[Mapping[str, Any]] | Snapshot | None


#: Before and after what was found. The seed's label; the original's is English.
LABEL, END = "===== 相关记忆 =====", "===== End of Memory ====="
#: Tokens of the whole, at most (design §13).
BUDGET = 2_000
#: What the store's own score counts.
STORE_WEIGHT = 0.7
#: What newness with length, and shared words, count.
NEWNESS, OVERLAP = 0.7, 0.3
#: Hours in which newness goes down to its floor: thirty days.
FADES_IN_HOURS, LEAST_NEWNESS = 720.0, 0.1
#: Texts shorter or longer than these, in characters, count less.
SHORT_TEXT, LONG_TEXT = 20, 200
SHORT_FACTOR, LONG_FACTOR = 0.5, 0.8


class StoreFailed(JiyiError):  # noqa: N818 – named after what it is about
    """A store could not be made or loaded: the graph cannot run."""

    code = "store_failed"


class ForThinking(TypedDict):
    """A text and the blocks that came with it."""

    text: str
    blocks: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a node gets of its stores."""

    #: For the agent; None: nothing was found.
    text: str | None
    #: What the text is made of, best first.
    items: list[RankedHit]
    #: Store → why it gave nothing. The node goes on without it.
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def scores(self) -> list[float]:
        return [one.score for one in self.items]

    @property
    def payload(self) -> ForThinking:
        """For thinking: the text, and the blocks that came with it, attachments included."""
        items = [one.hit.item for one in self.items]
        snapshots = [shot for item in items for shot in (item.input_snapshot, item.output_snapshot) if shot]
        blocks = [block.model_dump() for shot in snapshots for block in shot.blocks]
        return {"text": self.text or "", "blocks": blocks}


@dataclass(frozen=True, slots=True)
class StoreUpdates:
    """What became of what a node said, by store."""

    written: dict[str, WrittenItem]
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How what was found is ranked and put into words."""

    label: str = LABEL
    max_tokens: int | None = BUDGET
    #: What a store's own score counts beside newness and shared words.
    weight: float = STORE_WEIGHT
    fidelity: Fidelity = "jiyi"


class MemoryManager:
    """The stores of one node. They are the graph's, and shared with its other nodes."""

    def __init__(
        self,
        node_id: str,
        attachments: Sequence[MemoryAttachmentConfig],
        stores: Mapping[str, Store],
        *,
        style: Style | None = None,
        note: Callable[[LogOperation], object] | None = None,
        graph: str = "graph",
        run_id: str = "",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``note`` receives the log's entries; ``clock`` returns the current time, for newness.

        Raises:
            ValueError: an attachment names a store that there is not.
        """
        for one in attachments:
            if one.name not in stores:
                raise ValueError(
                    f"the node {node_id!r} is attached to {one.name!r}, which the graph does not declare"
                )
        self.node_id, self.attachments = node_id, tuple(attachments)
        self._stores, self._style, self._note = stores, style or Style(), note
        self._graph, self._run_id, self._clock = graph, run_id, clock

    def load(self) -> None:
        """Make the node's stores ready. Raises :class:`StoreFailed`."""
        for name in dict.fromkeys(one.name for one in self.attachments):
            load(name, self._stores[name])

    def retrieve(self, role: str, query: NodeContent, stage: Stage | str) -> Retrieved:
        """What the stores have for a question at a stage, in one order; one that fails is named."""
        now, began, style = Stage(stage_of(stage)), time.monotonic(), self._style
        text = _snapshot(query).text
        hits: dict[str, list[Hit]] = {}
        failed: dict[str, str] = {}
        for one in self.attachments:
            if not one.reads_at(now):
                continue
            question = StoreQuestion(
                role=role, query=text, top_k=one.top_k, threshold=one.similarity_threshold, stage=now
            )
            try:
                hits[one.name] = [*hits.get(one.name, []), *self._stores[one.name].retrieve(question)]
            # A store of anybody's may raise anything, and no node fails for it.
            except Exception as error:  # noqa: BLE001
                failed[one.name] = _reason(error)
                log.warning(
                    "store %s could not be read for the node %s: %s", one.name, self.node_id, failed[one.name]
                )
        ranked = rank(hits, text, self._clock(), weight=style.weight, fidelity=style.fidelity)
        language = language_of(text)
        memory, items = rendered(ranked, label=style.label, max_tokens=style.max_tokens, language=language)
        result = Retrieved(memory or None, items, failed)
        counts = {name: sum(one.store == name for one in items) for name in hits} | dict.fromkeys(failed, 0)
        blocks = [one["block"] for one in result.payload["blocks"]]
        self._log("RETRIEVE", now, began, counts, failed, blocks, len(text), len(memory))
        return result

    def update(self, role: str, inputs: NodeContent, output: NodeContent) -> StoreUpdates:
        """Store what the node said in the stores that it writes."""
        began, input_snapshot, output_snapshot = time.monotonic(), _snapshot(inputs), _snapshot(output)
        payload = Payload(
            role=role,
            inputs_text=input_snapshot.text,
            input_snapshot=input_snapshot,
            output_snapshot=output_snapshot,
        )
        updates = StoreUpdates({}, {})
        for name, store in self._written().items():
            try:
                updates.written[name] = store.update(payload)
            except Exception as error:  # noqa: BLE001 – as above
                updates.failed[name] = _reason(error)
                log.warning(
                    "store %s rejected the update from node %s: %s", name, self.node_id, updates.failed[name]
                )
                continue
            if not getattr(store, "durable", False):
                updates.failed.update(save({name: store}))
        counts = {name: int(one.item_id is not None) for name, one in updates.written.items()}
        counts |= dict.fromkeys(updates.failed, 0)
        blocks = [one.block for one in (*input_snapshot.blocks, *output_snapshot.blocks)]
        sizes = len(input_snapshot.text), len(output_snapshot.text)
        self._log("UPDATE", Stage.FINISHED, began, counts, updates.failed, blocks, *sizes)
        return updates

    def save(self) -> dict[str, str]:
        """Write the stores that the node writes to their files; store → what went wrong."""
        return save(self._written())

    def _written(self) -> dict[str, Store]:
        return {one.name: self._stores[one.name] for one in self.attachments if one.write}

    def _log(
        self,
        what: OperationType,
        stage: Stage,
        began: float,
        counts: Mapping[str, int],
        failed: Mapping[str, str],
        blocks: Sequence[Mapping[str, Any]],
        input_size: int,
        output_size: int,
    ) -> None:
        if self._note is None or not counts:
            return
        stores = [StoreUse(name=name, items=n, error=failed.get(name, "")) for name, n in counts.items()]
        entry = LogOperation(
            graph=self._graph,
            run_id=self._run_id,
            node_id=self.node_id,
            operation_type=what,
            stage=stage,
            item_count=sum(counts.values()),
            attachment_count=sum(block.get("type", "text") != "text" for block in blocks),
            input_size=input_size,
            output_size=output_size,
            duration_ms=(time.monotonic() - began) * 1_000,
            stores=stores,
        )
        try:
            self._note(entry)
        except JiyiError as error:  # the log is not worth a node
            log.warning("an operation of the node %s was not logged: %s", self.node_id, error)


def load(name: str, store: Store) -> None:
    """Make a store ready. Raises :class:`StoreFailed`."""
    try:
        store.load()
    except Exception as error:
        raise StoreFailed(f"Failed to create memory {name!r}: {_reason(error)}") from error


def save(stores: Mapping[str, Store]) -> dict[str, str]:
    """Let each store write what is not yet kept for good; store → what went wrong."""
    failed = {}
    for name, store in stores.items():
        try:
            store.save()
        except Exception as error:  # noqa: BLE001 – as above
            failed[name] = _reason(error)
            log.warning("store %s could not be saved: %s", name, failed[name])
    return failed


def _snapshot(content: NodeContent) -> Snapshot:
    """What cannot be stored is left out, and of what is too long the beginning is taken."""
    return content if isinstance(content, Snapshot) else snapshot_of(content or "")


def _reason(error: Exception) -> str:
    return kind_and_words(error)[:500]


def rendered(
    ranked: Sequence[RankedHit],
    *,
    label: str = LABEL,
    max_tokens: int | None = BUDGET,
    language: Language = "en",
) -> tuple[str, list[RankedHit]]:
    """The text, and what is in it; by stores, the one with the best item first. Empty if there is nothing."""
    lines: dict[str, list[Line]] = {one.store: [] for one in ranked}
    for rank, one in sorted(enumerate(ranked), key=lambda pair: pair[1].place):
        lines[one.store].append(Line(one.hit.item.content_summary, rank, item=(rank, one)))
    sections = [Section(f"--- {one_line(store)} ---", own, shortens=True) for store, own in lines.items()]
    style = PromptStyle(language, bullet="{number}. ", apart="\n\n", first=label, last=END)
    prompt = compose(sections, max_tokens or MAX_BUDGET, style)
    entries = sorted((written.line.item for written in prompt.lines), key=lambda item: item[0])
    return prompt.text, [one for _, one in entries]


@dataclass(frozen=True, slots=True)
class RankedHit:
    """An item found, with its store and its score among all."""

    store: str
    hit: Hit
    score: float
    #: Where it stands among its store's items in the text; those of one place stand by their scores.
    place: int = 0


def rank(
    hits_by_store: Mapping[str, Sequence[Hit]],
    query: str,
    now: datetime,
    *,
    weight: float = STORE_WEIGHT,
    fidelity: Fidelity = "jiyi",
) -> list[RankedHit]:
    """All items, best first; equal ones in the order of their stores.

    A store without scores keeps its own order in the text. If it gives its items in order of time, as a
    blackboard does, the latest count most, and get room first.
    """
    query_words = _words(query, fidelity)
    ranked: list[RankedHit] = []
    for store, hits in hits_by_store.items():
        # scores are to be comparable: 1 at most
        scale = max([1.0, *(hit.score for hit in hits if hit.score is not None)])
        of_store = []
        for hit in hits:
            text = hit.item.content_summary
            shared = len(query_words & _words(text, fidelity)) / len(query_words) if query_words else 0.0
            score = NEWNESS * _newness(hit, now) * _length_factor(text) + OVERLAP * shared
            if hit.score is not None and fidelity == "jiyi":
                score = weight * hit.score / scale + (1 - weight) * score
            of_store.append(RankedHit(store, hit, score))
        ranked += _in_order(of_store) if fidelity == "jiyi" else of_store
    return sorted(ranked, key=lambda one: -one.score)


def _in_order(items: list[RankedHit]) -> list[RankedHit]:
    """If the store has not scored them, the scores go by its order, or to the latest first."""
    if any(one.hit.score is not None for one in items):
        return items
    placed = [replace(one, place=place) for place, one in enumerate(items)]
    times = [one.hit.item.timestamp for one in items]
    scores = sorted((one.score for one in items), reverse=True)
    ordered = placed[::-1] if times == sorted(times) else placed
    return [replace(one, score=score) for one, score in zip(ordered, scores, strict=True)]


def _newness(hit: Hit, now: datetime) -> float:
    hours = max(0.0, (now.timestamp() - hit.item.timestamp) / 3_600)
    return max(LEAST_NEWNESS, 1 - hours / FADES_IN_HOURS)


def _length_factor(text: str) -> float:
    if len(text) < SHORT_TEXT:
        return SHORT_FACTOR
    return LONG_FACTOR if len(text) > LONG_TEXT else 1.0


def _words(text: str, fidelity: Fidelity) -> frozenset[str]:
    return frozenset(text.lower().split() if fidelity == "devall" else tokens(text))
