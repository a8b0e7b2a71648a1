"""The document for programs, and as a page for people: plain HTML, no script."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from flask import Blueprint, Response, abort, render_template, request
from markupsafe import Markup, escape

from jiyi.protocol.openapi import dify, problems
from jiyi.protocol.openapi import document as openapi
from jiyi.protocol.openapi.words import fields_of, type_of
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


def marked(text: str) -> Markup:
    """The text with what stands between back quotes as code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(text.split("`"))
    )


@lru_cache(maxsize=KEPT)
def _document(root: str) -> openapi.Json:
    return openapi.document(root, OPERATIONS)


@lru_cache(maxsize=KEPT)
def _written(root: str, form: str) -> str:
    made = dify.document(root, OPERATIONS) if form == "dify" else _document(root)
    return json.dumps(made, ensure_ascii=False, indent=2) + "\n"


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
