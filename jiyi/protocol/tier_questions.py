"""Asking working and long-term memory together: the question, and the answer with the state of each tier.

Quarantine is no tier that can be asked. A tier that failed is reported beside what the others found.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field, StringConstraints, computed_field

from jiyi.protocol.base import NOT_BLANK, JsonMapping, Name, Request
from jiyi.protocol.events import MAX_OUTPUT_CHARS
from jiyi.protocol.retrieval import FocalText
from jiyi.text.prompt import BUDGET, MAX_BUDGET, Part

#: As ``relevance_threshold``: nothing is left out.
NO_THRESHOLD = -1.0

#: The tiers that answer questions, and the web beside them.
Tier = Literal["working", "longterm", "web"]
#: What the originals call where an item comes from; ``external`` is the web, which is nobody's memory.
Source = Literal["hot", "cold", "external"]
Kind = Literal["statement", "verdict"]
Order = Literal["tier", "score"]

#: Items of working memory in an answer, its newest; of long-term memory unless ``max_results`` is given.
HOT_LIMIT, COLD_LIMIT = 10, 5
#: What working memory says counts as wholly relevant.
HOT_SCORE = 1.0
MAX_RESULTS = 100
MAX_WEB_RESULTS, MAX_DOMAINS = 10, 20
MAX_DAYS = 36_500

Text = Annotated[str, Field(pattern=NOT_BLANK, max_length=MAX_OUTPUT_CHARS)]
Threshold = Annotated[float, Field(ge=NO_THRESHOLD, le=1, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=MAX_DAYS, allow_inf_nan=False)]
SearchType = Literal["general", "news"]
Domain = Annotated[
    str,
    StringConstraints(
        pattern=r"^(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z0-9-]{2,63}$", to_lower=True
    ),
]
Domains = Annotated[tuple[Domain, ...], Field(max_length=MAX_DOMAINS)]


class MemoryQuestion(Request, use_attribute_docstrings=True):
    """What do the group's working and long-term memory know about this?"""

    query: FocalText
    """What to look for: a question, a topic, or a text that is worked on."""
    max_results: int | None = Field(None, ge=1, le=MAX_RESULTS)
    """Items in all. Unless given: 10 of working memory and 5 of long-term memory."""
    order: Order = Field("tier", description="`tier`: working memory first; `score`: the most similar first.")
    relevance_threshold: Threshold | None = None
    """Least similarity of long-term memories; -1: any. The embedding model's own unless given."""
    time_range_days: Days | None = None
    """Of working memory only what is not older than so many days. Long-term memory is found however old."""
    include_verdicts: bool = Field(True, description="Whether what decided something is among it.")
    session_id: Name | None = None
    """Only what this session said. Unless given: what any session of the group said."""
    agent_id: Name | None = None
    """Also what is known to this agent alone. Unless given: only what is the whole group's."""
    web_results: int = Field(0, ge=0, le=MAX_WEB_RESULTS)
    """Besides, at most so many results of a web search."""
    search_type: SearchType = Field("general", description="What the web is searched for: any page, or news.")
    domains: Domains = ()
    """Only pages of these domains, and of what is below them; any unless given."""
    asking_session: Name | None = None
    """The session that asks, whose web searches are counted; it filters nothing. Unless given:
    `session_id`; those who name neither share one allowance in their group."""
    now: AwareDatetime | None = Field(None, description="The present, for those who live in simulated time.")

    def since(self, now: datetime) -> datetime | None:
        """The oldest time that an item of working memory may have."""
        if self.time_range_days is None:
            return None
        try:
            return now - timedelta(days=self.time_range_days)
        except OverflowError:  # before the calendar begins, in simulated time
            return None

    @property
    def cold_limit(self) -> int:
        """Long-term memories to look for: more than that can never be shown."""
        return COLD_LIMIT if self.max_results is None else self.max_results


class MemoryQuery(MemoryQuestion):
    """A question with the group that it is asked for."""

    group_id: Name


class TierItem(BaseModel, frozen=True):
    """Something remembered, or found on the web."""

    item_id: str
    source: Source
    content: str
    #: 1.0 for working memory, the cosine for long-term memory, the search engine's for the web.
    score: float
    #: With the question, where there are vectors to compare.
    similarity: float | None = None
    kind: Kind = "statement"
    #: When it was said; of long-term memories, when it was promoted.
    created_at: datetime | None = None
    expires_at: datetime | None = None
    session_id: str | None = None
    #: None: the group's.
    agent_id: str | None = None
    #: Somebody has promoted it, or checked it and found it true. What is not is shown as temporary.
    verified: bool = False
    metadata: dict[str, Any] = {}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def temporary(self) -> bool:
        return self.source == "hot"


class TierStatus(BaseModel):
    """How one tier fared. ``skipped`` ones were not asked, ``message`` says why, or what went wrong."""

    tier: Tier
    state: Literal["ok", "failed", "skipped"]
    #: Items that it gave, and those of them that are in the answer.
    found: int = 0
    shown: int = 0
    seconds: float = 0.0
    message: str = ""


def status_of(tiers: Sequence[TierStatus]) -> Literal["ok", "partial", "failed"]:
    """``partial``: a tier failed, and another answered. ``failed``: none answered."""
    failed, answered = (
        any(tier.state == "failed" for tier in tiers),
        any(tier.state == "ok" for tier in tiers),
    )
    return "ok" if not failed else "partial" if answered else "failed"


class MemoryAnswer(BaseModel):
    """The items in the order asked for, and every tier's state."""

    results: list[TierItem] = []
    tiers: list[TierStatus] = []
    #: What the search engine itself says, if it was asked and does: nobody's memory, and nobody stands behind
    #: it.
    web_answer: str = ""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def status(self) -> Literal["ok", "partial", "failed"]:
        """``partial``: a tier failed, and another answered. ``failed``: none answered."""
        return status_of(self.tiers)

    @property
    def failures(self) -> list[TierStatus]:
        return [tier for tier in self.tiers if tier.state == "failed"]


#: Types of nodes whose output decides something.
VERDICT_NODES = frozenset({"verdict", "vote", "judge", "adjudicator", "decision"})


def kind_of(node_type: str | None, metadata: JsonMapping) -> Kind:
    """Whether an output is a verdict: it says so itself, or its node decides (``include_verdicts``)."""
    kind = metadata.get("kind")
    if kind in ("verdict", "statement"):
        return "verdict" if kind == "verdict" else "statement"
    return (
        "verdict"
        if metadata.get("verdict") is True or (node_type or "").lower() in VERDICT_NODES
        else "statement"
    )


PartText = Annotated[str, Field(max_length=MAX_OUTPUT_CHARS)]


class ContextBody(Request, use_attribute_docstrings=True):
    """Put together what an agent is given before it speaks: who it is, what is known, what to decide."""

    proposal: Text
    """What is to be decided or answered now. It comes last, and is never left out for memories."""
    system: PartText = Field("", description="The group's own words to all its agents; comes first.")
    persona: PartText = Field("", description="Who the agent is.")
    query: FocalText | None = None
    """What to look for in the group's memory; the proposal unless given."""
    budget: int = Field(BUDGET, ge=1, le=MAX_BUDGET)
    """Tokens that the text has at most, as Jiyi estimates them."""
    agent_id: Name | None = Field(None, description="Also what is known to this agent alone.")
    session_id: Name | None = Field(None, description="Only what this session said.")
    order: Order = "score"
    """Which memories come first: the most similar, or working memory (`tier`)."""
    relevance_threshold: Threshold | None = Field(None, description="As in a question to the tiers.")
    time_range_days: Days | None = Field(None, description="As in a question to the tiers.")
    include_verdicts: bool = Field(True, description="Whether what decided something is among the memories.")
    now: AwareDatetime | None = Field(None, description="The present, for those who live in simulated time.")


class ContextAnswer(BaseModel):
    """The text, what became of each of its parts, and the memories that are in it."""

    text: str = Field(description="The parts, with `---` between them.")
    tokens: int = Field(description="Its estimate, rather too many than too few; never above the budget.")
    budget: int
    parts: list[Part] = Field(description="In their order: what was kept, what was cut, and why.")
    memories: list[TierItem] = Field(
        description="Those in the text, in order; the last may be shortened there."
    )
    tiers: list[TierStatus] = Field(description="How each tier fared.")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def status(self) -> Literal["ok", "partial", "failed"]:
        """Of the memories: `partial` if a tier failed, `failed` if all did, and the text has none."""
        return status_of(self.tiers)

    @property
    def cut(self) -> list[str]:
        """What was cut, and why: a sentence a part."""
        return [part.why for part in self.parts if part.why]
