"""An OpenAI-compatible embeddings endpoint on loopback that answers with the service's own vectors.

E5 models embed questions and passages differently, and most clients of such an endpoint do not say which they
send. This one knows the questions beforehand, so that everybody gets the vectors that Jiyi works with.
Nothing is cached: whoever asks twice waits twice.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from engine.providers.embedder_specs import Embedder
from engine.providers.embedders import embedder
from jiyi.protocol.wire.vectors import Float32


def vectors(engine: Embedder, texts: list[str], questions: AbstractSet[str]) -> list[Float32]:
    """Each text's vector: as a question if it is one, else as a passage."""
    passages = [text for text in texts if text.strip() not in questions]
    made = iter(engine.passages(passages)) if passages else iter(())
    return [engine.query(text) if text.strip() in questions else next(made) for text in texts]


#: What an endpoint answers to the JSON of a request, as JSON.
Answer = Callable[[dict[str, Any]], bytes]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Else the kernel holds each answer's body back for 40 ms.
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def do_POST(self) -> None:
        """``POST /v1/embeddings``."""
        body = self.server.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — the base class calls it so
        """The benchmark's own output is enough."""


@contextmanager
def listening(answer: Answer) -> Iterator[str]:
    """The base URL (``http://127.0.0.1:…/v1``) of an endpoint while it runs. ``answer`` is called by several
    threads at once.
    """
    with _Server(answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


def serving(questions: AbstractSet[str]) -> AbstractContextManager[str]:
    """The base URL of an endpoint that knows these questions, while it runs."""
    engine, known = embedder(), {question.strip() for question in questions}
    one_at_a_time = threading.Lock()  # the engine uses every core by itself

    def answer(request: dict[str, Any]) -> bytes:
        texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
        with one_at_a_time:
            made = vectors(engine, texts, known)
        as_text = request.get("encoding_format") == "base64"
        return json.dumps(
            {
                "object": "list",
                "model": engine.model,
                "usage": {"prompt_tokens": 0, "total_tokens": 0},
                "data": [
                    {"object": "embedding", "index": i, "embedding": _form(v, as_text)}
                    for i, v in enumerate(made)
                ],
            }
        ).encode()

    return listening(answer)


def _form(vector: Float32, as_text: bool) -> str | list[float]:
    if as_text:
        return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
    return [float(value) for value in vector]
