"""The overview: is all well, and what is going on? All sources are asked at once, each allowed to be silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from flask import Blueprint, Response, render_template
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.memory import AgentState
from jiyi.protocol.operations import Tick, WorkOwed
from jiyi.providers.health import providers
from jiyi.settings import Settings, get_settings
from jiyi.text.translatable import Translatable
from models.db import valkey_keys
from models.db.sources import Reading, attempt, from_database, source
from models.db.valkey import valkey
from models.memory.agents import reads as agent_reads
from models.operations import rates, reads
from models.operations.embedding_models import ActiveModel, active_model
from models.operations.health import checks as health
from models.operations.health import liveness, servers
from models.operations.health.liveness import Liveness
from models.operations.health.servers import ServerState
from models.operations.reads import Totals
from models.queue import reads as pending
from web.accounts.identity import need, who
from web.admin import frame, inputs
from web.admin.frame import Page, across_groups, asked
from web.admin.operations import plots
from web.admin.pages import Context, listed
from web.answers import answer, json_answer

blueprint = Blueprint("overview", __name__)
PAGES = (Page("overview", lazy_gettext("Overview"), "overview.page"),)

AGENTS_PER_PAGE = 50
#: Minutes that can be plotted at most: a day.
MAX_MINUTES = 1_440


@blueprint.get("/")
@blueprint.get("/overview.json", endpoint="page_json")
def page() -> Response:
    operator = who().may("operator")
    data = {**gather(frame.group(), asked("after") or ""), "groups": frame.groups()}
    return answer("overview.html", data=data, plots=plots.plots() if operator else [], spans=plots.spans())


@blueprint.get("/overview/live")
def live() -> str:
    """The parts that a browser asks for again and again."""
    return render_template("_overview.html", refreshed=True, **gather(frame.group(), asked("after") or ""))


@blueprint.get("/overview/series.json")
def series() -> Response:
    """Figures of the whole service over time."""
    need("operator")
    minutes = min(inputs.whole("minutes", MAX_MINUTES) or 60, MAX_MINUTES)
    return json_answer(source("Valkey").ask(lambda: rates.series(minutes)))


def gather(group: str, after: str) -> Context:
    settings = get_settings()
    cache = source("Valkey").begin(lambda: {"access_buffered": valkey().zcard(valkey_keys.ACCESS)})
    alive, states = liveness.begin(settings), servers.begin()
    with across_groups():
        stored = attempt(lambda: from_database(lambda connection: _stored(connection, group, after)))
    return _put_together(settings, stored, attempt(cache), alive(), states(), group)


@dataclass(frozen=True)
class _Stored:
    """What the database knows; all unknown if it does not answer."""

    totals: Totals | None = None
    agents: list[Context] | None = None
    agents_next: str | None = None
    work_owed: list[WorkOwed] | None = None
    open_dead_letters: int | None = None
    jobs: dict[str, Tick] | None = None


def _stored(connection: Connection, group: str, after: str) -> tuple[_Stored, ActiveModel | None]:
    agents = listed("agents", agent_reads.agents(connection, group, after, AGENTS_PER_PAGE + 1), AGENTS_PER_PAGE, "agent_id")
    known = _Stored(
        totals=reads.totals(connection, group),
        agents=[with_reflection(one) for one in agents["agents"]],
        agents_next=agents["next"],
        work_owed=pending.by_kind(connection),
        open_dead_letters=reads.open_letters(connection, group),
        jobs=reads.last_runs(connection),
    )
    return known, active_model(connection)


def with_reflection(agent: AgentState) -> Context:
    """The agent's row with how far it is on the way to its next reflection (GA-48)."""
    most = AgentSettings(**agent.settings).over(get_settings()).importance_trigger_max
    gathered = most - agent.importance_trigger_curr
    return {**dict(agent), "reflection": {"gathered": gathered, "max": most, "owed": gathered >= most}}


def _put_together(
    settings: Settings,
    stored: Reading[tuple[_Stored, ActiveModel | None]],
    cached: Reading[dict[str, int]],
    alive: Liveness,
    states: dict[str, ServerState],
    group: str,
) -> Context:
    found, embedder = stored.value or (_Stored(), None)
    outside = attempt(source("providers").begin(lambda: providers(settings, None if embedder is None else embedder.spec)))
    not_read = Translatable("the database did not answer")
    checks = [
        health.reachable(Translatable("Database"), stored, Translatable("answers"))
        if states["database"].state == "ok"
        else health.server(Translatable("Database"), states["database"], ""),
        health.server("Valkey", states["valkey"], Translatable("answers, and takes what is written")),
        health.server(Translatable("Broker"), states["broker"], Translatable("takes what is published")),
        health.intake(settings, alive.depths, alive.broker.value.intakes if alive.broker.value else None),
        health.workers(alive.workers, alive.signs.value.canaries if alive.signs.value else {}),
        health.work(found.work_owed, not_read),
        health.schedule(settings, found.jobs, not_read, alive.signs.value.beat_age if alive.signs.value else None),
        health.dead_letters(found.open_dead_letters, not_read),
        *map(health.provider, outside.value or []),
    ]
    return {
        "as_of": datetime.now(UTC),
        "state": health.worst(checks),
        "checks": checks,
        **vars(liveness.state_of_queues(settings, alive)),
        "access_buffered": cached.value and cached.value["access_buffered"],
        "group": group,
        **vars(found),
    }
