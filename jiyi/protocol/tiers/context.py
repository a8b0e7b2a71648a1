"""A whole prompt for one who is to speak, with what the group knows, within a budget."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, Field, computed_field

from jiyi.protocol.events import MAX_OUTPUT_CHARS, Name
from jiyi.protocol.queries import Request
from jiyi.protocol.retrieval import FocalText
from jiyi.protocol.tiers.quarantine import Text
from jiyi.protocol.tiers.query import Days, Item, Order, Threshold, TierStatus, status_of
from jiyi.text.prompt import BUDGET, MAX_BUDGET, Part

PartText = Annotated[str, Field(max_length=MAX_OUTPUT_CHARS)]


class ContextBody(Request):
    """Put together what an agent is given before it speaks: who it is, what the group knows, what is to be decided."""

    proposal: Text = Field(description="What is to be decided or answered now. It comes last, and is never left out for memories.")
    system: PartText = Field("", description="The group's own words to all its agents; comes first.")
    persona: PartText = Field("", description="Who the agent is.")
    query: FocalText | None = Field(None, description="What to look for in the group's memory; the proposal unless given.")
    budget: int = Field(BUDGET, ge=1, le=MAX_BUDGET, description="Tokens that the text has at most, as Jiyi estimates them.")
    agent_id: Name | None = Field(None, description="Also what is known to this agent alone.")
    session_id: Name | None = Field(None, description="Only what this session said.")
    order: Order = Field("score", description="Which memories come first: the most similar, or working memory (`tier`).")
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
    memories: list[Item] = Field(description="Those in the text, in their order; the last one may be shortened there.")
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
