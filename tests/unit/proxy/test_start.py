"""What is wrong when the proxy starts is said in a sentence."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from starlette.applications import Starlette

from jiyi.cli.service import _with_broker, serve
from jiyi.errors import InvalidRequest, SettingsError
from jiyi.proxy.app import upstreams_of
from jiyi.settings import Settings


def test_a_taken_port_is_said_before_an_address_is(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"--port: {port} of 127.0.0.1 is taken"):
            serve(Starlette(), "proxy", "127.0.0.1", port, "/v1")
    assert capsys.readouterr().out == ""


def test_a_wrong_file_of_upstreams_is_refused_by_its_place_and_tells_no_key() -> None:
    def upstream(vendor: str, url: str) -> str:
        return json.dumps({"abcdefghijkl": {vendor: {"url": url, "key": "sk-hidden"}}})

    for text, problem in {
        "{": "Invalid JSON",
        '{"abc": {}}': "abc",
        upstream("openai", "ftp://x"): "abcdefghijkl.openai.url",
        upstream("gemini", "http://x"): "abcdefghijkl.gemini",
    }.items():
        with pytest.raises(InvalidRequest, match=problem) as refused:
            upstreams_of(text)
        assert "sk-hidden" not in str(refused.value)


def test_a_broker_that_nobody_named_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="JIYI_BROKER_URL is not set"):
        _with_broker(Settings(home=tmp_path, broker_url="", redis_url=""))
