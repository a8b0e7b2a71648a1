"""``jiyi mcp``: the tools for an LLM's host (``docs/integrations.md``)."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from jiyi.errors import SettingsError
from jiyi.settings import get_settings

#: Beside the service's own 8765.
DEFAULT_PORT = 8766


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP at /mcp; every request brings its own API key.")] = False,
    url: Annotated[str | None, typer.Option(help="Of the service.", show_default="JIYI_URL, or the one on this machine")] = None,
    host: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --http: the port to listen on.", min=0, max=65_535)] = DEFAULT_PORT,
) -> None:
    """Serve memory to an LLM's host over the Model Context Protocol; JIYI_KEY bounds what it may do."""
    settings = get_settings()
    address = url or settings.url or f"http://127.0.0.1:{settings.web_port}"
    key = settings.key.get_secret_value()
    if not http and not key:
        raise SettingsError("JIYI_KEY: set it to an API key (`jiyi keys create NAME --scope publish --scope read`), which bounds the tools")
    try:
        from jiyi.integrations import mcp as serving
    except ImportError as error:
        raise SettingsError(f"jiyi mcp needs the package {error.name}: pip install 'jiyi[mcp]'") from None
    if not http:
        asyncio.run(serving.serve_stdio(address, key))
        return
    import uvicorn

    uvicorn.run(serving.http_app(address, host), host=host, port=port, log_level="warning")
