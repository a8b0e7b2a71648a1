"""The operations that an LLM can use as tools, bounded by the key (``docs/integrations.md``)."""

from __future__ import annotations

from functools import lru_cache

from jiyi.protocol.openapi.tools import Tool, Tools, tools
from jiyi.protocol.wire.signatures import KeyScope
from web.api.registry import OPERATIONS, operation
from web.api.running import Asker


@operation("GET", "/tools", id="list_tools", scope=None, tag="service", answer=Tools)
def list_tools(asker: Asker) -> Tools:
    """List the tools for an LLM.

    Operations that the key may use, each as what function calling and MCP take: a name, a description, a JSON schema of its
    arguments; and how to call it over HTTP: arguments that are in the path or in the query, all others in the body.
    """
    return Tools(tools=[tool for tool, scope in _tools() if scope is None or asker.identity.may(scope)])


@lru_cache(maxsize=1)
def _tools() -> list[tuple[Tool, KeyScope | None]]:
    return tools(OPERATIONS)
