"""Reports are tried on a real service: the fixtures are those of the integration tests."""

from __future__ import annotations

from tests.integration import conftest as integration
from tests.integration.conftest import (
    _nothing_is_held_back,
    _own_keeper,
    _patient_web,
    _sees_everything,
    api,
    api_key,
    client,
    nothing_owed,
    own_caller,
    program,
    pytest_configure,
    service,
    sign_in,
    signed_in,
    web_app,
)

__all__ = [
    "_nothing_is_held_back",
    "_own_keeper",
    "_patient_web",
    "_sees_everything",
    "api",
    "api_key",
    "client",
    "nothing_owed",
    "own_caller",
    "program",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "service",
    "sign_in",
    "signed_in",
    "web_app",
]

#: Tests that need running workers come after those that do work themselves.
pytest_collection_modifyitems = integration.pytest_collection_modifyitems
