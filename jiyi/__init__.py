"""Jiyi 记忆: a self-hosted, event-driven memory service for AI agents.

``from jiyi import Client`` (or ``AsyncClient``) is what an agent's program needs. Importing this package
connects to nothing, and loads what a name needs only when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jiyi.client.client import AsyncClient, Client
    from jiyi.errors import JiyiError

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "JiyiError", "__version__"]


def __getattr__(name: str) -> Any:
    if name in ("AsyncClient", "Client"):
        from jiyi.client.client import AsyncClient, Client

        globals().update(AsyncClient=AsyncClient, Client=Client)
    elif name == "JiyiError":
        from jiyi.errors import JiyiError

        globals().update(JiyiError=JiyiError)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]
