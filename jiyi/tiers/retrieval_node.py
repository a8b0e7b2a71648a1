"""The workflow node that gives agents the group's history before they speak. For any workflow engine in
Python.

    node = MemoryRetrievalNode(retriever=client, properties={"max_results": 5})
    state = node.process(state, emit)          # adds ``history_context``, changes nothing else

It never raises: a workflow goes on without its history rather than not at all.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired, Protocol, Unpack
from uuid import UUID

from pydantic import AliasChoices, BaseModel, Field, ValidationError, WithJsonSchema, field_validator
from typing_extensions import TypedDict

from jiyi.client.arguments import MemoryArguments
from jiyi.errors import InvalidRequest, JiyiError, kind_and_words, problems_of
from jiyi.protocol import limits
from jiyi.protocol.base import JsonObject
from jiyi.protocol.tier_questions import (
    MAX_DAYS,
    MAX_RESULTS,
    MAX_WEB_RESULTS,
    Days,
    Domains,
    MemoryAnswer,
    Order,
    SearchType,
    Threshold,
    TierItem,
)
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompt import MAX_BUDGET, Line, PromptStyle, Section, compose
from jiyi.text.words import Language, storable

log = logging.getLogger(__name__)

NODE_TYPE = "memory_retrieval"
#: Where the question is looked for, in this order, and where the history goes.
QUERY_FIELDS, CONTEXT_FIELD = ("topic", "content", "document"), "history_context"
#: The heading, and the line above each item.
HEADINGS: dict[Language, str] = {"zh": "## 历史上下文", "en": "## History"}
RECORDS: dict[Language, str] = {
    "zh": "### 记录 {number} (相关度: {score:.2f})",
    "en": "### Record {number} (relevance: {score:.2f})",
}
#: Behind the line of an item of working memory that nobody has verified.
UNVERIFIED: dict[Language, str] = {"zh": " ⚡ 临时，未验证", "en": " ⚡ temporary, unverified"}
MAX_HEADING_CHARS = 200


#: Days: ``7``, ``"7d"``, ``"36h"``.
TimeRange = Annotated[
    Days,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_DAYS},
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?[dh]$"},
            ]
        }
    ),
]

Form = Literal["quoted", "plain"]
EventName = Literal["node_state_change", "memory_retrieved", "memory_retrieval_error"]


class NodeEvent(TypedDict):
    """An event that the node passes to the callback; ``data`` depends on the event."""

    event: EventName
    timestamp: Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
    node_id: NotRequired[str]
    data: dict[str, Any]


Emit = Callable[[NodeEvent], object]


class MemoryRetriever(Protocol):
    """A client that can query the memory; :class:`jiyi.Client` is one."""

    def query_memory(
        self, query: str, *, group_id: str, timeout: float | None = None, **options: Unpack[MemoryArguments]
    ) -> MemoryAnswer:
        """The answer; ``options`` are the other fields of a ``MemoryQuestion``."""
        ...


class NodeProperties(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """What an editor of workflows lets one set. The first four are SPEC-607's, with its defaults."""

    max_results: int = Field(5, ge=1, le=MAX_RESULTS)
    #: Of working memory; precedents of long-term memory are found however old. None: however old.
    time_range_days: TimeRange | None = Field(
        7, validation_alias=AliasChoices("time_range_days", "time_range")
    )
    #: None: the embedding model's own, which stands for SPEC-607's 0.7.
    relevance_threshold: Threshold | None = None
    include_verdicts: bool = True
    order: Order = "tier"
    #: Only what the same session said.
    same_session: bool = False
    #: Besides, results of a web search.
    web_results: int = Field(0, ge=0, le=MAX_WEB_RESULTS)
    search_type: SearchType = "general"
    #: Of the web only pages of these domains.
    domains: Domains = ()
    language: Language = "zh"
    #: Tokens that ``history_context`` may have at most. None: as many as it has.
    max_tokens: int | None = Field(None, ge=1, le=MAX_BUDGET)
    #: ``quoted``: for prompts; no content can pass for anything else. ``plain``: for people, as it was said.
    style: Form = "quoted"
    #: In place of the language's own heading, without the line end.
    heading: str = Field("", max_length=MAX_HEADING_CHARS)
    #: Seconds to wait for an answer; the deployment's request time-out unless given.
    timeout: float | None = Field(None, gt=0, le=600)

    @field_validator("time_range_days", mode="before")
    @classmethod
    def _days(cls, value: Any) -> Any:
        """``7``, ``"7d"``, ``"36h"``: SPEC-607 has the property under two names and in two forms."""
        if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([dh])", value)):
            return float(match[1]) / (24 if match[2] == "h" else 1)
        return value

    @property
    def preview(self) -> str:
        """What the node does, in a sentence of its language, for the panel of an editor."""
        most, days = self.max_results, self.time_range_days
        if self.language == "zh":
            span = "全部" if days is None else f"最近 {days:g} 天"
            verdicts = "包括裁决" if self.include_verdicts else "不包括裁决"
            return f"讲话前加入{span}的历史，最多 {most} 条，{verdicts}。"
        span = "" if days is None else f" of the last {days:g} days"
        verdicts = "with verdicts" if self.include_verdicts else "without verdicts"
        return f"Adds up to {most} entries of history{span} before the agent speaks, {verdicts}."


#: Properties that are no part of every question.
_OWN = {"same_session", "max_tokens", "language", "style", "heading", "timeout", "search_type", "domains"}


class MemoryRetrievalNode:
    """One node of a workflow. Thread-safe as far as its retriever is.

    Args:
        properties: as :class:`NodeProperties`, or a dict of them.
        retriever: whom to ask; without one the node skips.
        node_id: the node's id in its workflow, for the events.

    Raises:
        InvalidRequest: a property is wrong, which is better said when the workflow is built than when it
        runs.
    """

    def __init__(
        self,
        properties: NodeProperties | Mapping[str, Any] | None = None,
        *,
        retriever: MemoryRetriever | None = None,
        node_id: str = "",
    ) -> None:
        try:
            self.properties = NodeProperties.model_validate(properties or {})
        except ValidationError as error:
            raise InvalidRequest(problems_of(error, NodeProperties)) from None
        self.retriever = retriever
        self.node_id = node_id

    def process(self, inputs: Mapping[str, Any], emit: Emit | None = None) -> dict[str, Any]:
        """A copy of the inputs with ``history_context``, which is empty where there is none. Never raises."""
        report = _Emitter(emit, self.node_id)
        report("node_state_change", status="running")
        context = ""
        details: dict[str, Any] = {}
        try:
            context, details = self._history(inputs, report)
        except Exception as error:  # whatever it is, the workflow goes on
            log.exception("no memory was retrieved")
            ours = isinstance(error, JiyiError)
            report("memory_retrieval_error", error=str(error) if ours else kind_and_words(error))
        sizes = {"context_length": len(context), "context_tokens": estimate_tokens(context)}
        report("node_state_change", status="completed", **sizes, **details)
        return {**inputs, CONTEXT_FIELD: context}

    async def aprocess(self, inputs: Mapping[str, Any], emit: Emit | None = None) -> dict[str, Any]:
        """The same for asyncio; ``emit`` is called in another thread."""
        return await asyncio.to_thread(self.process, inputs, emit)

    def _history(self, inputs: Mapping[str, Any], report: _Emitter) -> tuple[str, JsonObject]:
        query, group_id = query_of(inputs), _name(inputs.get("group_id"))
        if self.retriever is None or not query or not group_id:
            missing = "memory service" if self.retriever is None else "group_id" if query else "query"
            return "", {"skipped": f"no {missing}"}
        properties = self.properties
        options = properties.model_dump(exclude=_OWN, exclude_none=True)
        session_id = _name(inputs.get("session_id"))
        if properties.same_session and session_id:
            options["session_id"] = session_id
        if properties.web_results:
            options |= {"search_type": properties.search_type, "domains": properties.domains}
            options["asking_session"] = session_id or None
        if agent_id := _name(inputs.get("agent_id")):  # also what only the agent that is to speak knows
            options["agent_id"] = agent_id
        answer = self.retriever.query_memory(query, group_id=group_id, timeout=properties.timeout, **options)
        for tier in answer.failures:
            report("memory_retrieval_error", error=tier.message, tier=tier.tier)
        if answer.status != "failed":
            sources = [item.source for item in answer.results]
            report(
                "memory_retrieved",
                count=len(sources),
                **{name: sources.count(name) for name in ("hot", "cold", "external")},
            )
        skipped = {tier.tier: tier.message for tier in answer.tiers if tier.state == "skipped"}
        context, left_out = fitting_history(
            answer.results, properties.max_tokens, properties.language, properties.heading, properties.style
        )
        notes: dict[str, Any] = {"skipped_tiers": skipped} if skipped else {}
        return context, notes | ({"left_out": left_out} if left_out else {})


def query_of(inputs: Mapping[str, Any]) -> str:
    """The first text that is not blank of ``topic``, ``content`` and ``document``, as far as it may be asked.

    The original stops at a ``content`` that is there but empty, and never looks at the document.
    """
    texts = (value for name in QUERY_FIELDS if isinstance(value := inputs.get(name), str))
    text = next((value for value in texts if storable(value).strip()), "")
    return storable(text).strip()[: limits.MAX_FOCAL_CHARS]


def format_history(
    items: Sequence[TierItem], language: Language = "zh", heading: str = "", style: Form = "quoted"
) -> str:
    """The history as Markdown; empty without items."""
    return fitting_history(items, None, language, heading, style)[0]


def fitting_history(
    items: Sequence[TierItem],
    max_tokens: int | None,
    language: Language = "zh",
    heading: str = "",
    style: Form = "quoted",
) -> tuple[str, int]:
    """The first items that fit as Markdown, the last one perhaps shortened; and how many were left out.

    ``plain`` is without preface and quotation: never for a prompt.
    """
    prompt_style = PromptStyle(
        language, between="\n\n", first=heading or HEADINGS[language], quotes=style == "quoted"
    )
    prompt = compose([history_section(items, language)], max_tokens or MAX_BUDGET, prompt_style)
    return f"{prompt.text}\n\n" if prompt.text else "", len(items) - len(prompt.lines)


def history_section(items: Sequence[TierItem], language: Language, title: str = "") -> Section:
    """The items below the line of each. What nobody has verified is marked as temporary."""
    lines = []
    for number, item in enumerate(items, 1):
        label = RECORDS[language].format(number=number, score=item.score)
        mark = UNVERIFIED[language] if item.temporary and not item.verified else ""
        lines.append(Line(item.content, label=label + mark))
    return Section(title, lines, name="history", shortens=True)


def description(language: Language = "en") -> JsonObject:
    """What an editor needs to offer the node."""
    return {
        "type": NODE_TYPE,
        "label": "Load History" if language == "en" else "加载历史",
        "icon": "📚",
        "colour": "#6366F1",
        "shape": "rounded rectangle",
        "inputs": [*QUERY_FIELDS, "group_id", "session_id", "agent_id"],
        "outputs": [CONTEXT_FIELD],
        "properties": NodeProperties.model_json_schema(),
        "preview": NodeProperties(language=language).preview,
    }


class _Emitter:
    """Calls ``emit``, whose errors are the listener's own affair."""

    def __init__(self, emit: Emit | None, node_id: str) -> None:
        self._emit, self._node_id = emit, node_id

    def __call__(self, event: EventName, **data: Any) -> None:
        if self._emit is None:
            return
        node_event = NodeEvent(event=event, timestamp=datetime.now(UTC).isoformat(), data=data)
        if self._node_id:
            node_event["node_id"] = self._node_id
        try:
            self._emit(node_event)
        except Exception:
            log.exception("a listener failed at %s", event)


def _name(value: Any) -> str:
    """A group's or session's name; empty for what is none."""
    return str(value).strip() if isinstance(value, str | UUID) else ""
