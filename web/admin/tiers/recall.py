"""Asking the tiers as a workflow's node does: the list that an agent would get, and the very text."""

from __future__ import annotations

from typing import get_args

from flask import Blueprint, Response, render_template, request
from flask_babel import lazy_gettext
from pydantic import ValidationError

from jiyi.errors import BrokerUnavailable, InvalidRequest, JiyiError, TooManyQuestions, problems_of
from jiyi.protocol import limits
from jiyi.protocol.tier_questions import MAX_RESULTS, MAX_WEB_RESULTS, MemoryAnswer, MemoryQuery, Order
from jiyi.protocol.wire.calls import retrieval_queue
from jiyi.settings import get_settings
from jiyi.text.words import Language
from jiyi.tiers.retrieval_node import NodeProperties, format_history
from models.db.bounded_reads import Reading, attempt, source
from models.tiers import query as memory
from web.accounts.identity import who
from web.admin import inputs
from web.admin.frame import Page, asked
from web.admin.pages import Context, page
from web.calls import caller

blueprint = Blueprint("recall", __name__)
PAGES = (Page("tiers", lazy_gettext("Ask the tiers"), "recall.page"),)

ORDERS: tuple[Order, ...] = get_args(Order)
LANGUAGES: tuple[Language, ...] = get_args(Language)
#: Seconds for an answer: the tiers give up after eight, and say which of them did not answer.
TIMEOUT = 9.0
#: With Valkey away first the broker is tried, then what is left of the tiers.
PATIENCE = 20.0
MAX_DAYS = 36_500


@page(
    blueprint,
    "/ask",
    "recall.html",
    orders=ORDERS,
    languages_of_heading=LANGUAGES,
    most=MAX_RESULTS,
    most_web=MAX_WEB_RESULTS,
    longest=lambda _data: limits.MAX_FOCAL_CHARS,
)
def answered(group: str) -> Context:
    query, wanted = (asked("query", limits.MAX_FOCAL_CHARS) or "").strip(), _wanted()
    got = _ask(group, query, wanted) if query else None
    text = format_history(got.value.results, wanted["language"]) if got and got.value else None
    unknown = (got and got.reason) or None
    return {"query": query, "wanted": wanted, "answer": got and got.value, "unknown": unknown, "history_context": text}


@blueprint.get("/ask/answer")
def found() -> Response:
    """The answer alone; the page's address becomes that of the question."""
    address = request.full_path.replace("/ask/answer", "/ask", 1)
    return Response(render_template("_recall.html", **answered()), headers={"HX-Replace-Url": address}, mimetype="text/html")


def _wanted() -> Context:
    """The node's properties, with its defaults; what is left empty in the form is not asked for."""
    defaults = NodeProperties()
    sent = asked("sent") is not None
    days = inputs.decimal("time_range_days", 1e-6, MAX_DAYS)
    return {
        "max_results": inputs.whole("max_results", MAX_RESULTS) or defaults.max_results,
        "time_range_days": days if sent or days is not None else defaults.time_range_days,
        "relevance_threshold": inputs.decimal("relevance_threshold", -1, 1),
        "include_verdicts": asked("include_verdicts") is not None if sent else defaults.include_verdicts,
        "order": inputs.choice("order", ORDERS) or defaults.order,
        "session_id": asked("session"),
        "agent_id": asked("agent"),
        "web_results": int(inputs.decimal("web_results", 0, MAX_WEB_RESULTS) or 0),
        "language": inputs.choice("headings", LANGUAGES) or defaults.language,  # `language` is the page's own
    }


def _ask(group: str, query: str, wanted: Context) -> Reading[MemoryAnswer]:
    given = {name: value for name, value in wanted.items() if name != "language" and value is not None}
    if wanted["web_results"]:
        given["asking_session"] = wanted["session_id"] or who().actor
    try:
        question = MemoryQuery(group_id=group, query=query, **given)
    except ValidationError as error:
        return Reading(None, "; ".join(problems_of(error)))
    queue = retrieval_queue(group, "", get_settings().retrieval_shards)

    def ask() -> MemoryAnswer | JiyiError:
        try:
            return MemoryAnswer.model_validate_json(caller().call_for_json("retrieval.memory", queue, question, TIMEOUT))
        except BrokerUnavailable:  # the queue is in Valkey, as working memory is: what is left of the tiers answers here
            return memory.query_memory(question)
        except (InvalidRequest, TooManyQuestions) as error:
            return error

    got = attempt(source("retrieval worker").begin(ask, PATIENCE))
    if isinstance(got.value, JiyiError):
        return Reading(None, str(got.value))
    return Reading(got.value, got.reason)
