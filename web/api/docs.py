"""The document for programs, and as a page for people (operations are tried by `static/api.js`)."""

from __future__ import annotations

import json

from flask import Blueprint, Response, abort, current_app, render_template, request
from markupsafe import Markup, escape

from jiyi.once import once, once_each
from jiyi.protocol.openapi import document as openapi
from jiyi.protocol.openapi import document as problems
from jiyi.protocol.openapi import tools
from jiyi.protocol.openapi.document import Json, not_null
from web.accounts.api_keys import limits
from web.api.registry import OPERATIONS
from web.show import pretty_json

blueprint = Blueprint("api_docs", __name__)

#: Placeholder in the documents for the service's address, which each request provides.
ROOT = "http://root.invalid"
#: Forms of the document.
FORMS = ("", "dify")


@blueprint.before_request
def _limit() -> None:
    """The documents need no key, so it is addresses that are limited."""
    limits().count_documents(request.remote_addr or "")


@blueprint.get("/api/openapi.json")
def openapi_json() -> Response:
    form = request.args.get("for", "")
    if form not in FORMS:
        abort(400, "for: must be dify, or left out.")
    return Response(_here(document_bytes(form), json.dumps(_root())[1:-1]), mimetype="application/json")


@blueprint.get("/api/docs")
def page() -> Response:
    return Response(_here(page_bytes(), str(escape(_root()))), mimetype="text/html")


def make() -> None:
    """Make the documents now: to be called before there are requests, which would wait for them."""
    for form in FORMS:
        document_bytes(form)
    with current_app.test_request_context(base_url=ROOT):
        page_bytes()


def _root() -> str:
    return request.host_url.rstrip("/")


def _here(content: bytes, root: str) -> bytes:
    return content.replace(ROOT.encode(), root.encode())


@once_each(len(FORMS))
def document_bytes(form: str) -> bytes:
    """The OpenAPI document in JSON, with :data:`ROOT` for the service's address."""
    document_ = tools.document(ROOT, OPERATIONS) if form == "dify" else whole_document()
    return (json.dumps(document_, ensure_ascii=False, indent=2) + "\n").encode()


@once
def page_bytes() -> bytes:
    """The page for people, with :data:`ROOT` for the service's address."""
    document = whole_document()
    schemas = document["components"]["schemas"]
    described = [
        {"operation": operation, "spec": document["paths"][operation.url][operation.method.lower()]}
        for operation in OPERATIONS
    ]
    return render_template(
        "api_docs.html",
        document=document,
        described=described,
        tags={tag["name"]: tag["description"] for tag in document["tags"]},
        titles=problems.TITLES,
        meanings=problems.MEANINGS,
        pretty=pretty_json,
        marked=marked,
        fields_of=lambda schema: fields_of(schema, schemas),
        type_of=lambda schema: type_of(schema, schemas),
    ).encode()


def marked(text: str) -> Markup:
    """The text with what stands between back quotes as code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(text.split("`"))
    )


@once
def whole_document() -> openapi.Json:
    """The OpenAPI document of all operations."""
    return openapi.document(ROOT, OPERATIONS)


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
    schema = _resolved(not_null(schema), schemas)
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'], schemas)}" if "items" in schema else "list"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(type_of(option, schemas) for option in options))
    return str(schema.get("format") or schema.get("const") or schema.get("type", "any"))


def _resolved(schema: Json, schemas: Json) -> Json:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    return schema
