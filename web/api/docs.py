"""The document for programs, and as a page for people: plain HTML, no script."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from flask import Blueprint, Response, abort, render_template, request
from markupsafe import Markup, escape

from web.api import dify, openapi, problems
from web.api.openapi import Json
from web.api.registry import OPERATIONS

blueprint = Blueprint("api_docs", __name__)

#: Documents remembered, one a host name and form.
KEPT = 16


@blueprint.get("/api/openapi.json")
def openapi_json() -> Response:
    form = request.args.get("for", "")
    if form not in ("", "dify"):
        abort(400, "for: must be dify, or left out.")
    return Response(_written(request.host_url, form), mimetype="application/json")


@blueprint.get("/api/docs")
def page() -> str:
    document = _document(request.host_url)
    schemas = document["components"]["schemas"]
    described = [{"operation": operation, "told": document["paths"][operation.url][operation.method.lower()]} for operation in OPERATIONS]
    return render_template(
        "api_docs.html",
        document=document,
        described=described,
        tags=openapi.TAGS,
        titles=problems.TITLES,
        meanings=problems.MEANINGS,
        pretty=_pretty,
        marked=marked,
        fields_of=lambda schema: fields_of(schema, schemas),
        type_of=lambda schema: type_of(schema, schemas),
    )


def fields_of(schema: Json, schemas: Json) -> list[Json]:
    """The fields of a body, of its shortest form if it has several: name, type, whether required, text."""
    schema = _resolved(schema, schemas)
    while options := schema.get("oneOf") or schema.get("anyOf"):
        schema = _resolved(options[-1], schemas)
    return [
        {
            "name": name,
            "type": type_of(property_, schemas),
            "required": name in schema.get("required", []),
            "description": property_.get("description", ""),
        }
        for name, property_ in schema.get("properties", {}).items()
    ]


def type_of(schema: Json, schemas: Json) -> str:
    """A schema in a few words."""
    schema = _resolved(openapi.not_null(schema), schemas)
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'], schemas)}" if "items" in schema else "list"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(type_of(option, schemas) for option in options))
    return str(schema.get("format") or schema.get("const") or schema.get("type", "any"))


def marked(text: str) -> Markup:
    """The text with what stands between back quotes as code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(text.split("`"))
    )


def _resolved(schema: Json, schemas: Json) -> Json:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    return schema


@lru_cache(maxsize=KEPT)
def _document(root: str) -> Json:
    return openapi.document(root)


@lru_cache(maxsize=KEPT)
def _written(root: str, form: str) -> str:
    made = dify.document(root) if form == "dify" else _document(root)
    return json.dumps(made, ensure_ascii=False, indent=2) + "\n"


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
