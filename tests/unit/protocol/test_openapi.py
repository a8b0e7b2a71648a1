"""The OpenAPI document: valid, complete, with examples that are true, and simple enough for Dify where it
says so.
"""

from __future__ import annotations

import json
import re
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from flask import Flask

from jiyi.protocol import limits
from jiyi.protocol.events import EVENT_TYPES
from jiyi.protocol.openapi import document as openapi
from jiyi.protocol.openapi import document as problems
from jiyi.protocol.openapi import tools
from web.accounts import api_keys
from web.api import OPERATIONS
from web.api.docs import blueprint, type_of
from web.api.registry import ApiOperation

DOCS = Path(__file__).resolve().parents[3] / "docs"
ROOT = "http://localhost:8765/"

BY_ID = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)


@pytest.fixture(scope="module")
def document() -> Any:
    return openapi.document(ROOT, OPERATIONS)


@pytest.fixture(scope="module")
def for_dify() -> Any:
    return tools.document(ROOT, OPERATIONS)


def described(document: Any, operation: ApiOperation) -> Any:
    return document["paths"][operation.url][operation.method.lower()]


def holds(document: Any, schema: Any, value: Any) -> None:
    jsonschema_rs.validate({**schema, "components": document["components"]}, value)


def test_the_document_is_openapi_3_1_and_every_reference_leads_somewhere(document: Any) -> None:
    assert document["openapi"] == "3.1.0"
    assert document["servers"] == [{"url": "http://localhost:8765"}]
    assert json.loads(json.dumps(document)) == document
    references = re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document))
    assert references
    for reference in references:
        reduce(getitem, reference.split("/"), document)


@BY_ID
def test_every_operation_says_what_it_does(document: Any, operation: ApiOperation) -> None:
    found = described(document, operation)
    assert len(found["description"]) > 60
    assert found["summary"][0].isupper()
    assert found["tags"] == [operation.tag]
    assert {str(status) for status in operation.statuses} == set(found["responses"])
    plain = {"subject", "predicate", "object", "state"}
    for parameter in found["parameters"]:
        assert parameter["description"] or parameter["name"] in plain, parameter
    for name in operation.parts:
        assert any(parameter["name"] == name and parameter["required"] for parameter in found["parameters"])


@BY_ID
def test_examples_are_true(document: Any, operation: ApiOperation) -> None:
    found = described(document, operation)
    model = operation.body or operation.query
    assert operation.examples or model is None, "what takes something shows how"
    for example in operation.examples.values():
        assert model is not None
        if operation.body is None:
            model.model_validate(example)
        else:
            model.model_validate_json(json.dumps(example))
            holds(document, found["requestBody"]["content"]["application/json"]["schema"], example)
    answer = found["responses"][str(operation.status)]["content"]["application/json"]
    holds(document, answer["schema"], answer["example"])


def test_schemas_are_schemas_have_limits_and_there_is_one_for_every_type_of_event(document: Any) -> None:
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        jsonschema_rs.meta.validate(schema)
        assert "``" not in json.dumps(schema), name
        assert not re.search(r"\((GA|CN|DA|ZC|K)-", json.dumps(schema)), name
    top_k = schemas["RetrieveBody"]["properties"]["top_k"]
    assert (top_k["minimum"], top_k["maximum"]) == (1, limits.MAX_TOP_K)
    assert schemas["EventList"]["properties"]["events"]["maxItems"] == limits.MAX_EVENTS_PER_MESSAGE
    assert schemas["Observation"]["properties"]["description"]["maxLength"] == limits.MAX_DESCRIPTION_CHARS
    given = document["paths"]["/api/v1/nodes"]["get"]["parameters"]
    limit = next(one for one in given if one["name"] == "limit")
    assert limit["schema"]["maximum"] == limits.MAX_PAGE
    posted = {
        schema["properties"]["type"].get("const")
        for schema in schemas.values()
        if "type" in schema.get("properties", {})
    }
    assert posted >= set(EVENT_TYPES)


def test_a_vector_is_a_list_or_base64(document: Any) -> None:
    vector = document["components"]["schemas"]["Observation"]["properties"]["vector"]
    for good in ([0.5, 1], "AAAAPw==", None):
        holds(document, vector, good)
    for bad in (["a"], 3, {}):
        with pytest.raises(jsonschema_rs.ValidationError):
            holds(document, vector, bad)


def test_every_problem_has_a_title_and_a_meaning() -> None:
    statuses = {status for operation in OPERATIONS for status in operation.statuses if status >= 400}
    assert statuses | {405} == problems.TITLES.keys()
    assert problems.TITLES.keys() == problems.MEANINGS.keys()
    assert set(problems.STATUSES.values()) <= problems.TITLES.keys()


def test_dify_gets_what_it_understands(for_dify: Any) -> None:
    assert len(for_dify["servers"]) == 1
    assert "$ref" not in json.dumps(for_dify)
    assert "anyOf" not in json.dumps(for_dify)
    names = set()
    for methods in for_dify["paths"].values():
        for operation in methods.values():
            names.add(operation["operationId"])
            assert operation["description"]
            given = list(operation["parameters"])
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                assert set(schema["required"]) <= schema["properties"].keys()
                given += [{"name": name, "schema": one} for name, one in schema["properties"].items()]
            for parameter in given:
                assert parameter["schema"]["type"] in tools.SIMPLE, parameter
                assert not isinstance(parameter["schema"].get("default"), list | dict)
            assert len({parameter["name"] for parameter in given}) == len(
                given
            )  # Dify warns of names that come twice
    assert {"observe", "retrieve_memories", "list_memories"} <= names
    assert len(names) <= 10  # an LLM chooses worse among more


def test_what_dify_sends_is_accepted(for_dify: Any) -> None:
    """It leaves out what an LLM did not give, or sends the default."""
    for operation in OPERATIONS:
        if operation.flat is None or operation.body is None:
            continue
        body = for_dify["paths"][operation.url][operation.method.lower()]["requestBody"]
        schema = body["content"]["application/json"]["schema"]
        sent = {name: one["default"] for name, one in schema["properties"].items() if "default" in one}
        operation.body.model_validate_json(json.dumps(sent | dict.fromkeys(schema["required"], "x")))


def test_types_are_said_in_a_few_words() -> None:
    assert type_of({"anyOf": [{"type": "string"}, {"type": "null"}]}, {}) == "string"
    assert type_of({"type": "array", "items": {"type": "string", "format": "uuid"}}, {}) == "list of uuid"
    assert type_of({"enum": ["a", "b"]}, {}) == "a | b"
    assert type_of({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {}) == "string or integer"


def test_the_page_shows_every_operation_without_a_script_of_its_own_and_both_documents_are_served() -> None:
    app = Flask("web")
    api_keys.register(app)
    app.register_blueprint(blueprint)
    client = app.test_client()
    answer = client.get("/api/docs")
    assert answer.status_code == 200
    html = answer.text
    for operation in OPERATIONS:
        assert f'id="{operation.id}"' in html
    for status in problems.TITLES:
        assert f'id="problem-{status}"' in html
    assert re.findall(r"<script[^>]*>[^<]*", html) == ['<script src="/static/api.js" defer>']
    assert " style=" not in html
    assert 'name="viewport"' in html
    assert "老葛" in html  # examples are in two languages
    assert client.get("/api/openapi.json").json["openapi"] == "3.1.0"
    assert client.get("/api/openapi.json?for=dify").json["openapi"] == "3.0.3"
    assert client.get("/api/openapi.json?for=me").status_code == 400


def test_the_guides_name_every_operation_by_a_name_that_a_tool_may_have(for_dify: Any) -> None:
    api, integrations = ((DOCS / f"{name}.md").read_text("utf-8") for name in ("api", "integrations"))
    section = api.partition("## Operations")[2].partition("\n## ")[0]
    for operation in OPERATIONS:
        assert re.search(rf"/{operation.path.strip('/').split('/')[0]}\b", section), operation.id
        assert re.fullmatch(r"[a-z][a-z0-9_]{2,63}", operation.id)  # by the strictest of the vendors
    assert len({operation.id for operation in OPERATIONS}) == len(OPERATIONS)
    text = integrations.partition("## Dify")[2]
    for methods in for_dify["paths"].values():
        for operation in methods.values():
            assert f"`{operation['operationId']}`" in text
