"""A retrieval as the worker answers it, with all that goes to Valkey beside the reply."""

from __future__ import annotations

import time
from typing import Any

from jiyi.protocol.retrieval import RetrievalRequest
from jiyi.protocol.wire.calls import NOBODY
from models.db.actions import Actor
from models.db.valkey import valkey
from tasks.retrieval.answer import publish_answer
from tasks.retrieval.retrieve import answer


def answered(request: RetrievalRequest, caller: str = NOBODY) -> dict[str, Any]:
    """The answer's fields, once the retrieval is published, recorded (unless nobody asked), and what it
    touched is noted.
    """
    began = time.monotonic()
    fields = answer(request)
    with valkey().pipeline(transaction=False) as pipe:
        then = publish_answer(
            pipe, Actor(request.group_id, caller), request, fields, time.monotonic() - began
        )
        answers = pipe.execute()
    if then is not None:
        then(answers)
    return fields
