"""Jiyi 记忆: a self-hosted, event-driven memory service for AI agents.

``from jiyi import Client`` (or ``AsyncClient``) is what an agent's program needs. Importing this package
connects to nothing, and loads what a name needs only when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jiyi.client.client import AsyncClient, Client
    from jiyi.errors import JiyiError

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "JiyiError", "__version__"]

_MODULES = {"AsyncClient": "jiyi.client.client", "Client": "jiyi.client.client", "JiyiError": "jiyi.errors"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
