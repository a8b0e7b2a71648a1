"""What each request took, for Prometheus and traces: by its rule, without its query, which may be private."""

from __future__ import annotations

import time

from flask import Flask, Response, g, request

from jiyi import tracing
from jiyi.protocol.openapi.document import MEDIA_TYPE
from models.operations import histograms

#: With the value ``answered`` a refusal has the status 200: Dify's HTTP node passes on the body of no other
#: answer. Its own ``status`` says what it is.
REFUSALS_HEADER = "Jiyi-Refusals"
#: What machines ask again and again.
NOT_TRACED = frozenset({"probes.healthz", "probes.readyz", "metrics.metrics", "static"})


def register(app: Flask) -> None:
    """Before anything else is, so that what is refused counts, too."""
    app.before_request(_begin)
    app.after_request(_answered)
    app.teardown_request(_end)


def _begin() -> None:
    g.request_began = time.perf_counter()
    if not tracing.is_loaded() or request.endpoint in NOT_TRACED:
        return
    rule = "" if request.url_rule is None else request.url_rule.rule
    attributes = {"http.request.method": request.method, "url.scheme": request.scheme} | (
        {"http.route": rule} if rule else {}
    )
    entered = tracing.span(
        f"{request.method} {rule}".strip(), "server", attributes, within=tracing.received(request.headers)
    )
    g.request_trace, g.request_span = entered, entered.__enter__()


def _answered(response: Response) -> Response:
    span = g.get("request_span")
    if span is not None:
        span.set_attribute("http.response.status_code", response.status_code)
        if response.status_code >= 500:
            tracing.failed(str(response.status_code))
    if request.endpoint not in NOT_TRACED and (began := g.pop("request_began", None)) is not None:
        route = "" if request.url_rule is None else request.url_rule.rule
        method = request.method if route else ""  # what is asked of no address may be called anything
        histograms.HTTP.observe([time.perf_counter() - began], method, route, str(response.status_code))
    if (
        response.mimetype == MEDIA_TYPE and request.headers.get(REFUSALS_HEADER) == "answered"
    ):  # it counted as what it is
        response.status_code = 200
    return response


def _end(error: BaseException | None) -> None:
    entered = g.pop("request_trace", None)
    if entered is not None:
        entered.__exit__(*((None,) * 3 if error is None else (type(error), error, error.__traceback__)))
