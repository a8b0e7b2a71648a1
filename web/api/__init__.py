"""The REST API ``/api/v1``, for programs: identified by keys, never by cookies. A module a kind of thing.

Every operation is registered in ``web.api.registry``; its route, its checks, the OpenAPI document and the
tests follow from that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import Blueprint, Flask, Response
from werkzeug.routing import BaseConverter

from jiyi.protocol.openapi.document import PREFIX, TAGS
from web.accounts.api_keys import identify_by_key
from web.api import docs, wiring
from web.api.problems import answer_to
from web.api.registry import OPERATIONS, ApiOperation, complete_examples
from web.api.running import run

assert wiring.MODULES  # their import is what registers their operations
OPERATIONS.sort(key=lambda operation: list(TAGS).index(operation.tag))
complete_examples()


class AnythingConverter(BaseConverter):
    """A name with any characters: servers hand over slashes, too, percent-decoded."""

    regex = ".+?"
    part_isolating = False


def register(app: Flask) -> None:
    app.url_map.converters["anything"] = AnythingConverter
    app.register_blueprint(_blueprint())
    app.register_blueprint(docs.blueprint)


def _blueprint() -> Blueprint:
    blueprint = Blueprint("api", __name__, url_prefix=PREFIX)
    blueprint.before_request(identify_by_key)
    blueprint.register_error_handler(Exception, answer_to)
    for operation in OPERATIONS:
        blueprint.add_url_rule(operation.path, operation.id, _view(operation), methods=[operation.method])
    return blueprint


def _view(operation: ApiOperation) -> Callable[..., Response]:
    @wraps(operation.handler)
    def view(**parts: Any) -> Response:
        return run(operation, **parts)

    return view
