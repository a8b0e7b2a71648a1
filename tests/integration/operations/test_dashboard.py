"""What the dashboard and the alerts ask Prometheus for is what the service tells."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from flask import Flask
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from uuid6 import uuid7

from engine.providers.calls import ModelCall, calling
from models.operations import histograms, meters

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
#: What a family's samples are called beyond its own name, by its type.
SAMPLES = {
    "counter": ["_total"],
    "histogram": ["_bucket", "_sum", "_count"],
    "gauge": [""],
    "info": ["_info"],
    "unknown": [""],
}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def expressions() -> Iterator[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text(encoding="utf-8"))
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        yield rule["expr"]
    for panel in panels():
        for target in panel.get("targets", []):
            yield target["expr"]


def panels() -> list[dict[str, Any]]:
    board: dict[str, Any] = json.loads((DEPLOY / "grafana/jiyi.json").read_text(encoding="utf-8"))
    return list(board["panels"])


@pytest.fixture
def scraped(web_app: Flask, api_key: Callable[..., str]) -> Callable[..., str]:
    """The text that Prometheus gets, once everything has been delivered that was counted."""
    headers = {"Authorization": f"Bearer {api_key(None, 'operator')}"}

    def scrape(accept: str = "") -> str:
        meters.flush()
        answer = web_app.test_client().get(
            "/metrics", headers=headers | ({"Accept": accept} if accept else {})
        )
        assert answer.status_code == 200
        return answer.text

    return scrape


def told(text: str) -> dict[str, Metric]:
    return {
        family.name + suffix: family
        for family in text_string_to_metric_families(text)
        for suffix in SAMPLES[family.type]
    }


def test_each_expression_asks_for_metrics_and_labels_that_there_are(scraped: Callable[..., str]) -> None:
    histograms.HTTP.observe([0.1], "GET", "/", "200")
    meters.task("work.embed", "failed", 1.0, 1.0)
    families = told(scraped())
    asked = list(expressions())
    assert len(asked) > 40
    for expression in asked:
        assert expression.count("(") == expression.count(")")
        names = re.findall(r"\b(?:jiyi|process)_\w+", expression)
        assert names, expression
        missing = [name for name in names if name not in families]
        assert not missing, expression
    labels = {label for family in families.values() for sample in family.samples for label in sample.labels}
    groups = ["".join(group) for text in asked for group in re.findall(r"\{(.*?)\}|by \((.*?)\)", text)]
    used = {label for group in groups for label in re.findall(r"(\w+)(?:[=!]|,|$)", group)}
    # What nothing was counted of yet has no sample here: labels of models, breakers, servers that are away
    # and indexes.
    assert used <= labels | {
        "le",
        "job",
        "provider",
        "operation",
        "model",
        "direction",
        "error",
        "worker",
        "server",
        "state",
    }


def test_panels_of_the_dashboard_do_not_lie_on_one_another_and_have_ids_of_their_own() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels())
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels()}) == len(panels())


def value(text: str, name: str, **labels: str) -> float:
    families = told(text)
    return sum(
        sample.value
        for sample in families[name].samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def test_requests_are_counted_by_their_route_and_never_by_what_they_ask(web_app, scraped):
    name = "jiyi_http_request_seconds_count"
    before = scraped()
    client = web_app.test_client()
    for address in ("/api/v1/memories?q=klaus", "/nowhere/klaus", "/healthz"):
        client.open(address, method="GET")
    client.open("/nowhere", method="KLAUS")
    after = scraped()
    assert value(after, name, method="", route="") == value(before, name, method="", route="") + 3
    assert value(after, name) == value(before, name) + 3  # not the probes
    assert "klaus" not in after.lower()


def test_the_time_until_a_memory_is_retrievable_is_told_by_its_events_id(scraped: Callable[..., str]) -> None:
    name = "jiyi_observed_to_retrievable_seconds"
    before = scraped()
    imported = type(uuid7())(int=(uuid7().int & ~(0xFFFFFFFFFFFF << 80)) | (1_000 << 80))  # 1970
    histograms.retrievable([uuid7(), uuid7(), uuid4(), imported])
    after = scraped()
    assert value(after, f"{name}_count") - value(before, f"{name}_count") == 2
    assert value(after, f"{name}_bucket", le="2.5") - value(before, f"{name}_bucket", le="2.5") == 2


def test_a_models_calls_tokens_and_failures_are_counted(scraped: Callable[..., str]) -> None:
    model = f"m|{uuid4().hex[:8]}"
    histograms.called(ModelCall("chat", "deepseek", model, 0.3, input_tokens=70, output_tokens=20))
    histograms.called(ModelCall("chat", "deepseek", model, 9.0, error="LLMUnavailable"))
    text, labels = scraped(), {"operation": "chat", "provider": "deepseek", "model": model.replace("|", "_")}
    assert value(text, "jiyi_model_call_seconds_count", **labels) == 2
    assert value(text, "jiyi_model_call_seconds_bucket", le="0.5", **labels) == 1
    assert value(text, "jiyi_model_tokens_total", direction="input", **labels) == 70
    assert value(text, "jiyi_model_errors_total", error="LLMUnavailable", **labels) == 1


def test_a_traced_duration_is_an_exemplar_in_openmetrics(scraped, monkeypatch):
    monkeypatch.setattr(histograms.tracing, "ids", lambda: ("a" * 32, "b" * 16))
    route = f"/{uuid4().hex}"
    histograms.HTTP.observe([0.02], "GET", route, "200")
    families = list(parse_openmetrics(scraped(OPENMETRICS)))
    samples = [
        sample for family in families for sample in family.samples if sample.labels.get("route") == route
    ]
    (exemplar,) = [sample.exemplar for sample in samples if sample.exemplar is not None]
    assert exemplar.labels == {"trace_id": "a" * 32, "span_id": "b" * 16}
    assert (exemplar.value, float(exemplar.timestamp)) == (0.02, pytest.approx(time.time(), abs=60))


def test_what_may_fail_begins_at_nothing_so_that_the_first_failure_is_a_growth(scraped):
    meters.task(task := f"test-{uuid4().hex}", "done", 1.0, None)
    text = scraped()
    (failed,) = [
        s for s in told(text)["jiyi_tasks_total"].samples if s.labels == {"task": task, "outcome": "failed"}
    ]
    assert failed.value == 0
    assert {sample.labels["kind"] for sample in told(text)["jiyi_work_total"].samples} >= {"embed", "reflect"}
    assert value(text, "jiyi_build_info") == 1


def test_calls_are_timed_whether_they_are_answered_or_not() -> None:
    with pytest.raises(ValueError, match="no"), calling("rerank", "jina", "x") as call:
        raise ValueError("no")
    assert call.error == "ValueError"
    assert call.seconds > 0
