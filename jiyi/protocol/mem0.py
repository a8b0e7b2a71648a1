"""What programs written for mem0 send: to its platform (paths ``/v1`` to ``/v3``), or to its own server. Unknown fields are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, model_validator

from jiyi.protocol.base import MAX_NAME_CHARS, Role, small_enough
from jiyi.protocol.conversations import MAX_MESSAGES

#: The agent of whoever names none.
DEFAULT_AGENT = "assistant"
#: Who something may be of, by mem0's names.
ENTITIES = ("user_id", "agent_id", "run_id", "app_id")
MAX_PAGE, DEFAULT_FOUND = 100, 10
#: ``*``: whoever it is, so that nothing is asked for.
ANY = "*"
COMPARED = {"gte": "created_after", "gt": "created_after", "lt": "created_before", "lte": "created_before"}

Entity = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
Metadata = Annotated[dict[str, Any], AfterValidator(small_enough)]


class Whose(BaseModel):
    """Of whom: at the top, as its server has it, or within ``filters``, as its platform has it."""

    user_id: Entity | None = None
    agent_id: Entity | None = None
    run_id: Entity | None = None
    app_id: Entity | None = None
    metadata: Metadata | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    @model_validator(mode="before")
    @classmethod
    def _filters_are_flat(cls, given: Any) -> Any:
        """``{"filters": {"AND": [{"user_id": "mia"}, …]}}`` as ``{"user_id": "mia"}``; what cannot be asked here is refused."""
        if not isinstance(given, dict) or not given.get("filters"):
            return given
        return {**given, **_flat(given["filters"])}

    @property
    def entities(self) -> dict[str, str]:
        """What is named."""
        named = {name: getattr(self, name) for name in ENTITIES}
        return {name: value for name, value in named.items() if value not in (None, ANY)}

    @property
    def agent(self) -> str:
        """Whose memory it is here."""
        return self.entities.get("agent_id", DEFAULT_AGENT)


def _flat(filters: Any) -> dict[str, Any]:
    if not isinstance(filters, dict):
        raise ValueError("filters: must be an object")  # noqa: TRY004 – pydantic's word for a wrong field
    flat: dict[str, Any] = {}
    for name, wanted in filters.items():
        if name == "AND" and isinstance(wanted, list):
            for each in wanted:
                flat |= _flat(each)
        elif name in (*ENTITIES, "metadata"):
            if name != "metadata" and not isinstance(wanted, str | None):
                raise ValueError(f"filters.{name}: only one value can be asked for; ask once for each")
            flat[name] = wanted
        elif name == "created_at" and isinstance(wanted, Mapping) and set(wanted) <= COMPARED.keys():
            flat |= {COMPARED[how]: moment for how, moment in wanted.items()}
        else:
            raise ValueError(f"filters.{str(name)[:40]}: cannot be asked for here; use AND, {', '.join(ENTITIES)}, metadata, created_at")
    return flat


class Said(BaseModel):
    """A message."""

    role: Role = "user"
    content: str


class Add(Whose):
    """Messages to be remembered: what they tell (``infer``), or each as it is."""

    messages: Annotated[list[Said], Field(min_length=1, max_length=MAX_MESSAGES)]
    infer: bool = True
    timestamp: float | None = Field(None, ge=0, le=253_000_000_000, allow_inf_nan=False)
    expiration_date: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _text_is_a_message(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(given.get("messages"), str):
            return {**given, "messages": [{"role": "user", "content": given["messages"]}]}
        return given


class Search(Whose):
    """What is looked for."""

    query: Annotated[str, Field(min_length=1, max_length=8_000)]
    top_k: int | None = Field(None, ge=1, le=MAX_PAGE)
    limit: int | None = Field(None, ge=1, le=MAX_PAGE)
    threshold: float | None = None


class Listed(Whose):
    """Which memories, page by page."""

    page: int = Field(1, ge=1, le=10_000)
    page_size: int = Field(MAX_PAGE, ge=1, le=500)


class Project(BaseModel):
    """What its client sends along with everything: what the ping answered. The key says which group it is."""

    org_id: str | None = None
    project_id: str | None = None


class Page(BaseModel):
    """Which page, where it stands in the address."""

    page: int | None = Field(None, ge=1, le=10_000)
    page_size: int | None = Field(None, ge=1, le=500)


class Change(BaseModel):
    """What a memory says from now on; its server calls the text ``data`` as well."""

    text: str | None = None
    data: str | None = None
    metadata: Metadata | None = None

    @property
    def words(self) -> str | None:
        """Its new text."""
        return self.text if self.text is not None else self.data
