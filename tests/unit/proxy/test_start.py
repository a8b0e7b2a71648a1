"""What is wrong when the proxy starts is said in a sentence."""

from __future__ import annotations

import socket

import pytest
from starlette.applications import Starlette

from jiyi.cli.service import _serve
from jiyi.errors import InvalidRequest, SettingsError
from jiyi.proxy.app import upstreams_of


def test_a_taken_port_is_said_before_an_address_is(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"--port: {port} of 127.0.0.1 is taken"):
            _serve(Starlette(), "proxy", "127.0.0.1", port, "/v1")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "Invalid JSON"),
        ('{"abc": {}}', "abc"),
        ('{"abcdefghijkl": {"openai": {"url": "ftp://x", "key": "sk-hidden"}}}', "abcdefghijkl.openai.url"),
        ('{"abcdefghijkl": {"gemini": {"url": "http://x", "key": "sk-hidden"}}}', "abcdefghijkl.gemini"),
    ],
)
def test_a_wrong_file_of_upstreams_is_refused_by_its_place_and_tells_no_key(text: str, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem) as refused:
        upstreams_of(text)
    assert "sk-hidden" not in str(refused.value)
