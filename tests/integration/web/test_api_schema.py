"""The API against its own document, by Schemathesis: whatever is sent, what comes back is what was promised.

With ``--fuzz-minutes 10`` the requests are other ones in each run, for so long over all operations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.generation.meta import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from models.memory.ingest import StatusPoller
from web import actions, create_app
from web.accounts import api_keys
from web.api import OPERATIONS
from workers.ephemeral import environment

#: Requests of each operation and each of the two ways; ``--fuzz-minutes`` is for more.
EXAMPLES = {GenerationMode.POSITIVE: 2, GenerationMode.NEGATIVE: 3}
#: Seconds that a worker gets for its answer, whatever a request says: there is one, and a busy machine takes
#: its time.
ANSWER_SECONDS = 60.0
#: Seconds; what may never come is waited for no longer, whatever a request says.
PATIENCE = 0.05

# That every body of the right form is taken is not promised: some fields need each other (docs/api.md).
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
#: What asks a server that the request names: 503, and not 500, says that it is not there.
ASKS_OTHERS = {"viking_configure_embedding"}
#: Each operation both ways; not what takes nothing, in which nothing could be wrong.
TRIALS = [
    (operation, mode)
    for operation in OPERATIONS
    for mode in EXAMPLES
    if mode is GenerationMode.POSITIVE or operation.body or operation.query or operation.parts
]


@pytest.fixture(scope="module")
def loaded(_workers: None) -> Iterator[Any]:
    """The document of one app for all trials, without limits: else most answers would be 429."""
    with environment(rate_limit=""), pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_keys, "REFUSED", "100000/minute")  # made before any fixture of a single test
        app = create_app()
        app.config["PROPAGATE_EXCEPTIONS"] = False
        yield schemathesis.openapi.from_wsgi("/api/openapi.json", app)
        for made in actions.caller.made():
            made.close()
        actions.caller.cache_clear()


@pytest.fixture
def document(loaded: Any, service: str, api_key: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The document, with an operator's key that speaks for a group of its own."""
    loaded.key = {"Authorization": f"Bearer {api_key(None, 'operator')}", "Jiyi-Group": service}
    ask = actions.caller().call_for_json
    monkeypatch.setattr(
        actions.caller(),
        "call_for_json",
        lambda task, queue, request, _timeout, **by: ask(task, queue, request, ANSWER_SECONDS, **by),
    )
    wait = StatusPoller.wait
    monkeypatch.setattr(
        StatusPoller,
        "wait",
        lambda poller, group_id, ids, seconds: wait(poller, group_id, ids, min(seconds, PATIENCE)),
    )
    return loaded


#: The status of a body of more bytes than are read.
TOO_LARGE = 413


def is_wrong_beside_its_headers(case: Any) -> bool:
    """Whether something else than a header is wrong: the key's, and the group's, are sent right in any
    case.
    """
    return any(
        part.mode is GenerationMode.NEGATIVE
        for where, part in case.meta.components.items()
        if where is not ParameterLocation.HEADER
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("operation", "mode"), TRIALS, ids=lambda one: getattr(one, "id", None) or one.value)
def test_the_api_keeps_what_its_document_promises(
    document: Any, operation: Any, mode: GenerationMode, pytestconfig: pytest.Config
) -> None:
    found = document[operation.url][operation.method]
    seconds = 60 * pytestconfig.getoption("--fuzz-minutes") / len(TRIALS)
    until = time.monotonic() + seconds
    checks = [one for one in CHECKS if one is not not_a_server_error or operation.id not in ASKS_OTHERS]

    @settings(
        max_examples=EXAMPLES[mode],
        deadline=None,
        derandomize=not seconds,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=found.as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        wrong = mode is GenerationMode.NEGATIVE and is_wrong_beside_its_headers(case)
        answer = case.call(headers=document.key)
        # What is too large is refused before it is looked at.
        rejected = [negative_data_rejection] if wrong and answer.status_code != TOO_LARGE else []
        case.validate_response(answer, checks=[*checks, *rejected])
        assert answer.status_code != 500

    holds()
    while time.monotonic() < until:  # each time with other requests
        holds()


def test_no_operation_answers_without_a_key(document: Any) -> None:
    def tried(operation: Any) -> None:
        found = document[operation.url][operation.method]

        @settings(
            max_examples=1,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=found.as_strategy())
        def refused(case: Any) -> None:
            case.headers.pop("Authorization", None)
            answer = case.call()
            case.validate_response(answer, checks=[status_code_conformance, response_schema_conformance])
            assert answer.status_code == 401, operation.id

        refused()

    for operation in OPERATIONS:
        tried(operation)
