"""The retrieval playground: ask an agent's memory, see why each memory ranks where it does, and compare two
settings.

The playground never touches what it finds: looking changes nothing. The query stands in the address, less
what is as the agent has it, so that it can be sent to somebody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from flask import Response, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from pydantic import ValidationError
from sqlalchemy import Connection

from jiyi.errors import problems_of
from jiyi.protocol import limits
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.base import NodeType
from jiyi.protocol.conversations import CONTEXT_KINDS, KINDS
from jiyi.protocol.origins import ORIGINS
from jiyi.protocol.retrieval import Answer, RetrievalRequest, ScoredMemory
from jiyi.protocol.wire.calls import NOBODY, retrieval_queue
from jiyi.settings import WEIGHTS, Mode, RelevanceMode, get_settings
from models.db.bounded_reads import SourceReading, attempt, from_database, source
from models.memory.agents import agent_names, agent_row
from models.memory.filters import sentences
from web.actions import caller
from web.admin import frame, inputs
from web.admin.frame import MenuPage, parameter
from web.admin.pages import Context, Pages
from web.show import translated

playground_pages = Pages(
    "playground", __name__, MenuPage("retrieval", lazy_gettext("Retrieval"), "playground.page")
)
playground_pages.add_app_template_filter(lambda value: f"{value:g}", "setting")

NODE_TYPES: tuple[str, ...] = get_args(NodeType)
ALL_KINDS: tuple[str, ...] = ("memory", *KINDS)
MODES: tuple[str, ...] = get_args(Mode)
RELEVANCES: tuple[str, ...] = get_args(RelevanceMode)
#: Settings that a side may have of its own.
OF_A_SIDE = "mode relevance recency_w relevance_w importance_w recency_decay top_k diversity".split()
SIDES = ("a", "b")
DEFAULT_TOP_K, MOST_SHOWN = 15, 100
#: Right end of the sliders; larger weights may stand in the address.
SLIDER_WEIGHT = 5.0
#: Left end of the decay's slider: below it only the last few memories are distinguished.
SLIDER_DECAY = 0.8
#: What the other side begins with, until it is asked with settings of its own: two that are the same show
#: nothing.
OTHER_RELEVANCE = {"hybrid": "dense", "dense": "hybrid", "lexical": "hybrid"}
FILTERS = (
    "type kind origin min_trust from to session user keyword min_similarity archived expired superseded"
    " now as_of"
).split()


@playground_pages.page(
    "/playground",
    "playground.html",
    types=NODE_TYPES,
    kinds=ALL_KINDS,
    usual_kinds=CONTEXT_KINDS,
    origins=ORIGINS,
    modes=MODES,
    other_relevance=OTHER_RELEVANCE,
    relevances=RELEVANCES,
    slider_weight=SLIDER_WEIGHT,
    slider_decay=SLIDER_DECAY,
    most_shown=MOST_SHOWN,
)
def answered(group: str) -> Context:
    agent, focal = parameter("agent"), parameter("focal", 100_000) or ""
    reading = attempt(
        lambda: from_database(lambda connection: _agents_and_settings(connection, group, agent))
    )
    agents, agent, settings = reading.value or ([], agent, None)
    defaults = _defaults(settings)
    sides = {side: {**defaults, **_own_settings(side, defaults)} for side in SIDES}
    compare = parameter("compare") is not None
    if compare and not any(name.startswith("b.") for name in request.args):
        sides["b"] = sides["a"] | {"relevance": OTHER_RELEVANCE[sides["a"]["relevance"]]}
    requests = {side: _request_settings(sides[side], defaults) for side in (SIDES if compare else SIDES[:1])}
    answers = _ask(group, agent, focal, requests) if agent and focal.strip() else {}
    lists = {side: ranking(side_answer, side, sides[side]) for side, side_answer in answers.items()}
    compared(lists)
    for side, ranked in lists.items():  # for the memories' own pages, which show the components again
        own = {name: value for name, value in sides[side].items() if value != defaults[name]}
        of_a = {f"a.{name}": own[name] for name in OF_A_SIDE[:-2] if name in own}
        ranked["address"] = {**_filters(), **of_a}
    of_agent = {"agents": agents, "agent": agent, "known": settings is not None, "defaults": defaults}
    of_question = {"focal": focal, "filters": _filters(), "compare": compare, "sides": sides}
    address = _address(agent, focal, compare, sides, defaults)
    return {**of_agent, **of_question, "unknown": reading.reason or None, "found": lists, "address": address}


@playground_pages.get("/playground/answer")
def found() -> Response:
    """What was found, for the page that is there already; its address becomes that of the question."""
    data = answered()
    return Response(
        render_template("_playground.html", **data),
        headers={"HX-Replace-Url": str(data["address"])},
        mimetype="text/html",
    )


def _agents_and_settings(
    connection: Connection, group: str, agent: str | None
) -> tuple[list[str], str | None, Context | None]:
    """The agents to choose from, the one chosen or the first, and its settings."""
    names = agent_names(connection, group)
    chosen = agent or next(iter(names), None)
    row = None if chosen is None else agent_row(connection, group, chosen)
    return names, chosen, None if row is None else row.settings


def _defaults(settings: Context | None) -> Context:
    """What the agent's retrievals go by when a question says nothing."""
    own = AgentSettings(**settings or {}).over(get_settings()).model_dump()
    usual = {"relevance": get_settings().agent_defaults.relevance, "top_k": DEFAULT_TOP_K, "diversity": 0.0}
    return {name: (own | usual)[name] for name in OF_A_SIDE}


def _own_settings(side: str, defaults: Context) -> Context:
    """What the address says of one side. Negative weights come from an agent only."""
    values = {
        "mode": inputs.choice(f"{side}.mode", MODES),
        "relevance": inputs.choice(f"{side}.relevance", RELEVANCES),
        **{name: inputs.decimal(f"{side}.{name}", min(0, defaults[name]), 100) for name in WEIGHTS},
        "recency_decay": inputs.decimal(f"{side}.recency_decay", 1e-6, 1),
        "top_k": inputs.whole(f"{side}.top_k", MOST_SHOWN),
        "diversity": inputs.decimal(f"{side}.diversity", 0, 1),
    }
    return {name: value for name, value in values.items() if value is not None}


def _request_settings(settings: Context, defaults: Context) -> Context:
    """What a question says of its own: an agent may have weights that no question can have."""
    return {name: value for name, value in settings.items() if name not in WEIGHTS or value != defaults[name]}


def _filters() -> Context:
    filters: Context = {**inputs.parameters(FILTERS)}
    several = {"type": NODE_TYPES, "kind": ALL_KINDS, "origin": ORIGINS}
    return filters | {name: inputs.choices(name, all_) for name, all_ in several.items() if name in filters}


def _ask(group: str, agent: str, focal: str, sides: dict[str, Context]) -> dict[str, SourceReading[Answer]]:
    """Both sides at once."""
    begun: dict[str, Callable[[], Answer] | str] = {}
    for side, settings in sides.items():
        try:
            begun[side] = retrieving(_request(group, agent, focal, settings))
        except ValidationError as error:
            begun[side] = "; ".join(problems_of(error))
    return {
        side: SourceReading(None, begun_answer) if isinstance(begun_answer, str) else attempt(begun_answer)
        for side, begun_answer in begun.items()
    }


def _request(group: str, agent: str, focal: str, settings: Context) -> RetrievalRequest:
    filters = {
        "types": inputs.choices("type", NODE_TYPES) or ["event", "thought"],
        "kinds": inputs.choices("kind", ALL_KINDS) or [*CONTEXT_KINDS],
        "origins": inputs.choices("origin", ORIGINS),
        "min_trust": inputs.decimal("min_trust", 0, 1),
        "created_after": inputs.moment("from"),
        "created_before": inputs.moment("to", end=True),
        "session_id": parameter("session"),
        "keywords": [word for word in [parameter("keyword")] if word],
        "min_similarity": inputs.decimal("min_similarity", -1, 1),
        "include_archived": parameter("archived") is not None,
        "include_expired": parameter("expired") is not None,
        "superseded": parameter("superseded") is not None,
    }
    times = {name: inputs.moment(name) for name in ("now", "as_of")}
    whose = {"group_id": group, "agent_id": agent, "user_id": parameter("user")}
    return RetrievalRequest(queries=[focal], touch=False, **whose, **times, filters=filters, **settings)


def _address(
    agent: str | None, focal: str, compare: bool, sides: dict[str, Context], defaults: Context
) -> str:
    """This question's address: short, because what is as the agent has it is left out."""
    parameters = {"group": frame.group(), "agent": agent or None, "focal": focal or None, **_filters()}
    parameters["compare"] = "1" if compare else None
    for side in SIDES if compare else SIDES[:1]:
        parameters |= {
            f"{side}.{name}": sides[side][name] for name in OF_A_SIDE if sides[side][name] != defaults[name]
        }
    if compare:  # said in any case, so that the address does not begin with another one
        parameters["b.relevance"] = sides["b"]["relevance"]
    return url_for("playground.page", **parameters)


@playground_pages.get("/playground/one/<name:group>/<uuid:node_id>")
def one(group: str, node_id: Any) -> str:
    """The components of one memory for a question that led to it: part of the memory's page."""
    focal, agent = parameter("focal", 100_000) or "", parameter("agent") or ""
    defaults = _defaults(None)
    settings = {**defaults, **_own_settings("a", defaults), "top_k": limits.MAX_TOP_K}
    for name in ("mode", "recency_w", "relevance_w", "importance_w", "recency_decay", "relevance"):
        if f"a.{name}" not in request.args:
            del settings[name]  # as the agent has it
    answers = _ask(group, agent, focal, {"a": settings}) if focal.strip() and agent else {}
    lists = {side: ranking(each, side, settings) for side, each in answers.items()}
    compared(lists)
    side = lists.get("a")
    row = next((row for row in side["rows"] if row["node_id"] == node_id), None) if side else None
    data = {"side": side, "row": row, "focal": focal, "looked_at": settings["top_k"]}
    return render_template("_ranked_one.html", message=gettext("Enter a query."), **data)


#: The parts of a score, in the order of the bar.
PARTS = ("recency", "relevance", "importance")
#: Of relevance, where they played a part (``jiyi.protocol.retrieval.RelevanceParts``).
RELEVANCE_PARTS = ("dense", "lexical", "second_hop", "neighbours", "named")
#: What a row shows of a memory besides.
SHOWN = {
    *("node_id", "agent_id", "type", "kind", "node_count", "created_at", "last_accessed"),
    *("poignancy", "description", "score", *PARTS),
}
#: A bar never fills its line quite, so that its end is seen.
FULL = 98.0


def ranking(reading: SourceReading[Answer], side: str, settings: Context) -> Context:
    """One side: its rows, or in one sentence why there are none."""
    of_side = {"side": side, "settings": settings, "unknown": reading.reason or None}
    if reading.value is None:
        return {**of_side, "rows": [], "debug": None, "message": "", "weights": {}}
    group = reading.value.groups[0]
    first = next(iter(group.retrieved_nodes), None)
    return {
        **of_side,
        "debug": group.debug.model_dump(),
        "status": group.status,
        "message": group.message,
        "left_out": [translated(sentence) for sentence in sentences(group.debug.left_out)],
        # Setting × gain, which is the same for all memories of an answer.
        "weights": {} if first is None else {part: getattr(first, part).weight for part in PARTS},
        "rows": [_row(rank, node) for rank, node in enumerate(group.retrieved_nodes, 1)],
    }


def compared(lists: dict[str, Context]) -> None:
    """Give each row its bar, and its rank on the other side."""
    for ranking_ in lists.values():
        highest = max((row["score"] for row in ranking_["rows"]), default=0.0)
        for row in ranking_["rows"]:
            row["bar"] = _bar(row, highest)
    if len(lists) < 2:
        return
    ranks = {
        side: {row["node_id"]: row["rank"] for row in ranking_["rows"]} for side, ranking_ in lists.items()
    }
    for side, ranking_ in lists.items():
        other = next(ranks[name] for name in lists if name != side)
        for row in ranking_["rows"]:
            row["elsewhere"] = other.get(row["node_id"])
            row["moved"] = None if row["elsewhere"] is None else row["elsewhere"] - row["rank"]


def _row(rank: int, node: ScoredMemory) -> Context:
    parts = node.relevance_parts.model_dump()
    return {**node.model_dump(include=SHOWN), "rank": rank, "relevance_parts": parts}


def _bar(row: Context, highest: float) -> list[Context]:
    """The three parts from left to right, in hundredths of the line."""
    segments, x = [], 0.0
    for part in PARTS:
        width = max(0.0, row[part]["contribution"]) / highest * FULL if highest > 0 else 0.0
        segments.append({"part": part, "x": round(x, 2), "width": round(width, 2)})
        x += width
    return segments


#: Seconds that a page waits for a retrieval: a worker that is there answers in milliseconds, one that begins
#: to load an agent in a second or two.
RETRIEVAL_PATIENCE = 4.0
#: The worker's time-out is a little shorter, so that the reason is its own.
RETRIEVAL_TIMEOUT = 3.5


def retrieving(request: RetrievalRequest) -> Callable[[], Answer]:
    """Ask a retrieval worker now; the answer is fetched by calling what is returned."""
    queue = retrieval_queue(request.group_id, request.agent_id, get_settings().retrieval_shards)

    def ask() -> Answer:
        return Answer.model_validate_json(
            caller().call_for_json("retrieval.retrieve", queue, request, RETRIEVAL_TIMEOUT, actor=NOBODY)
        )

    return source("retrieval worker").begin(ask, RETRIEVAL_PATIENCE)
