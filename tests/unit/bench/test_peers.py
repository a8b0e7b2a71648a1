"""The endpoint through which the benchmark of peers gives everybody the same vectors."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable

import numpy as np

from bench.support import endpoint
from engine.providers.embedders import HashingEmbedder, embedder
from jiyi.settings import Settings


class Turned(HashingEmbedder):
    """Its two kinds differ: a passage's vector points the other way."""

    def passages(self, texts):  # type: ignore[no-untyped-def]
        return -super().passages(texts)


def test_the_endpoint_answers_as_openai_does_and_knows_which_texts_are_questions(
    configure: Callable[..., Settings],
) -> None:
    texts, engine = ["what tea? ", "tea"], Turned(16)
    made = endpoint.vectors(engine, texts, {"what tea?"})
    assert np.allclose(made, [engine.query("what tea? "), -engine.query("tea")])
    configure(embedder="hashing:16")
    embedder.cache_clear()
    answers = {}
    with endpoint.serving({"what tea?"}) as url:
        for form in ("float", "base64"):
            body = json.dumps({"model": "any", "input": texts, "encoding_format": form}).encode()
            request = urllib.request.Request(f"{url}/embeddings", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as response:
                rows = sorted(json.load(response)["data"], key=lambda row: row["index"])
            answers[form] = [row["embedding"] for row in rows]
    embedder.cache_clear()
    packed = [np.frombuffer(base64.b64decode(text), dtype="<f4") for text in answers["base64"]]
    assert np.allclose(answers["float"], [engine.query(text) for text in texts])
    assert np.allclose(answers["float"], packed)
