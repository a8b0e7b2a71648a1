"""Every page in two forms: for people, and as JSON under the same address with ``.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flask import Response, render_template, request
from pydantic_core import to_jsonable_python


def wants_json() -> bool:
    return request.path.endswith(".json")


def answer(template: str, status: int = 200, *, data: Mapping[str, object], **only_for_people: Any) -> Response:
    """``data`` in the form that was asked for."""
    if wants_json():
        return json_answer(data, status)
    return Response(render_template(template, **data, **only_for_people), status, mimetype="text/html")


def json_answer(data: Mapping[str, object], status: int = 200) -> Response:
    body = json.dumps(to_jsonable_python(data), ensure_ascii=False, indent=2)
    return Response(body + "\n", status, mimetype="application/json")
