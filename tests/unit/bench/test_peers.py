"""What stands between the benchmark of peers and its peers: the endpoint and the lines."""

import base64
import json
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

from bench.support import endpoint, environments
from engine.providers.embedders import HashingEmbedder

ECHO = """
import sys
sys.path.insert(0, {folder!r})
from lines import serve

class Echo:
    def __init__(self, given):
        print("noise on standard output")
        self.kept = {{}}
    def remember(self, agent, memories):
        self.kept[agent] = [row["key"] for row in memories]
    def ask(self, agent, question, top_k):
        return self.kept[agent][:top_k]
    def close(self):
        print("closed", file=sys.stderr)

serve(Echo)
"""


@pytest.fixture
def engine(monkeypatch):
    engine = HashingEmbedder(16)
    # The two kinds are told apart: a passage's vector points the other way.
    monkeypatch.setattr(engine, "passages", lambda texts: np.stack([-engine.query(text) for text in texts]))
    monkeypatch.setattr(endpoint, "embedder", lambda: engine)
    return engine


@pytest.mark.parametrize("form", ["float", "base64"])
def test_the_endpoint_answers_as_openai_does(engine, form):
    with endpoint.serving({"what tea?"}) as url:
        body = json.dumps({"model": "any", "input": ["what tea? ", "tea"], "encoding_format": form}).encode()
        request = urllib.request.Request(f"{url}/embeddings", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as response:
            data = json.load(response)["data"]
    found = [row["embedding"] for row in sorted(data, key=lambda row: row["index"])]
    if form == "base64":
        found = [np.frombuffer(base64.b64decode(text), dtype="<f4") for text in found]
    assert np.allclose(found, [engine.query("what tea? "), -engine.query("tea")])


@pytest.fixture
def conversation(tmp_path, monkeypatch):
    script = tmp_path / "echo_adapter.py"
    script.write_text(ECHO.format(folder=str(environments.ADAPTERS)))
    monkeypatch.setattr(environments, "ADAPTERS", tmp_path)
    monkeypatch.setattr(environments, "environment", lambda peer: sys.executable)
    talking = environments.Conversation(environments.Peer("echo", "Echo", ()), {}, tmp_path / "log")
    yield talking
    talking.close()
    for pipe in (talking.process.stdin, talking.process.stdout):
        pipe.close()


def test_an_adapter_answers_line_by_line_and_one_that_fails_is_skipped_with_the_reason(
    conversation, tmp_path
):
    assert conversation.say({"remember": "a", "memories": [{"key": "1"}, {"key": "2"}]})["seconds"] >= 0
    assert conversation.say({"ask": "a", "question": "?", "top_k": 1})["keys"] == ["1"]
    with pytest.raises(environments.Skipped, match="KeyError: 'nobody'"):
        conversation.say({"ask": "nobody", "question": "?", "top_k": 1})
    with pytest.raises(environments.Skipped, match=r"ended: .*closed"):
        conversation.say({"ask": "a", "question": "?", "top_k": 1})
    conversation.close()
    assert "closed" in (tmp_path / "log").read_text()


def test_a_peer_that_cannot_be_installed_is_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("JIYI_BENCH_CACHE", str(tmp_path))

    def fail(command, **_):
        raise subprocess.CalledProcessError(
            1, command, stderr="one\nERROR: No matching distribution found for x\n"
        )

    monkeypatch.setattr(environments.subprocess, "run", fail)
    with pytest.raises(environments.Skipped, match="No matching distribution found"):
        environments.environment(environments.PEERS[0])
