"""A proxy for one run, and an upstream that answers at once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from os import environ

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from workers import ephemeral

#: The upstream's answer, piece by piece.
PIECES = [
    f'data: {{"choices": [{{"index": 0, "delta": {{"content": "word {n} "}}}}]}}\n\n'.encode()
    for n in range(20)
]
#: What Python is given to run a proxy.
PROXY = ("-m", "jiyi", "proxy")
#: Seconds that either may take to come up, or to end.
PATIENCE = 120.0


async def _answer(request: Request) -> Response:
    async for _ in request.stream():
        pass  # nothing of it is kept

    async def pieces() -> AsyncIterator[bytes]:
        for piece in PIECES:
            yield piece

    return StreamingResponse(pieces(), media_type="text/event-stream")


@contextmanager
def upstream() -> Iterator[str]:
    """The address of an API that answers at once."""
    app = Starlette(routes=[Route("/v1/chat/completions", _answer, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    server.should_exit = True
    thread.join(PATIENCE)


@contextmanager
def proxy(service: str, upstream_address: str, agent: str) -> Iterator[str]:
    """The address of ``jiyi proxy``, in a process of its own; ``agent``: whose memory it is."""
    port = ephemeral.free_port()
    addresses = ["--url", service, "--broker", "--openai", upstream_address]
    command = [sys.executable, *PROXY, *addresses, "--agent", agent, "--port", str(port)]
    with subprocess.Popen(command, env={**environ, "JIYI_KEY": ""}, stdout=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + PATIENCE
            while not ephemeral.answers(port):
                if time.monotonic() > end or process.poll() is not None:
                    raise TimeoutError("the proxy does not come up")
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
