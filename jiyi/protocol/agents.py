"""What can be set for one agent. A field that is not set falls back to the deployment's setting."""

from __future__ import annotations

from pydantic import BaseModel, Field

from jiyi.settings import WEIGHTS, AgentWeight, Decay, Dedupe, Derive, DeriveKeywords, Mode, Settings
from jiyi.zones import TimeZone


class AgentSettings(BaseModel, frozen=True, extra="forbid"):
    """Per-agent settings. ``None`` means: not set here."""

    mode: Mode | None = None
    recency_w: AgentWeight | None = None
    relevance_w: AgentWeight | None = None
    importance_w: AgentWeight | None = None
    recency_decay: Decay | None = None
    dedupe: Dedupe | None = None
    importance_trigger_max: int | None = Field(None, ge=1, le=1_000_000)
    derive_poignancy: Derive | None = None
    derive_triple: Derive | None = None
    derive_keywords: DeriveKeywords | None = None
    tz: TimeZone | None = Field(
        None, description="Of the agent's and its users' days, and of its quiet hours."
    )

    def over(self, settings: Settings, mode: Mode | None = None) -> ResolvedSettings:
        """These settings, with the deployment's for what is not set, and for weights that the mode (a
        request's, else the agent's) has no use for.
        """
        usual = settings.agent_defaults
        mode = mode or self.mode or usual.mode
        useless = {name for name in WEIGHTS if mode != "stanford" and (getattr(self, name) or 0) < 0}
        fields = {
            name: value
            for name in ResolvedSettings.model_fields
            if (value := getattr(self, name)) is not None
        }
        own = {name: value for name, value in fields.items() if name not in useless}
        return ResolvedSettings(**{"tz": settings.tz, **usual.model_dump(exclude={"relevance"}), **own})


class ResolvedSettings(BaseModel, frozen=True):
    """An agent's settings with nothing left open."""

    mode: Mode
    recency_w: float
    relevance_w: float
    importance_w: float
    recency_decay: float
    dedupe: Dedupe
    importance_trigger_max: int
    derive_poignancy: Derive
    derive_triple: Derive
    derive_keywords: DeriveKeywords
    tz: str
