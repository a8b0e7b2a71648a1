"""What a web has made before its first request."""

from __future__ import annotations

import sys

from jiyi.protocol.wire.json_checks import schema_of
from web import create_app
from web.api.registry import OPERATIONS
from workers.web.serve import warm_up


def test_no_request_waits_for_types_of_bodies_or_for_words() -> None:
    schema_of.cache_clear()
    warm_up(create_app())
    made = len(list(schema_of.made()))
    for operation in OPERATIONS:
        if operation.body is not None:
            schema_of(operation.body)
    assert len(list(schema_of.made())) == made > 0
    assert "rjieba" in sys.modules
