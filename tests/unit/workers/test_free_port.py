"""workers.ephemeral.free_port: a port that nobody has, and that no connection gets by itself."""

from __future__ import annotations

import socket

import pytest

from workers import ephemeral
from workers.ephemeral import FIRST_PORT, PORT_TRIES, PORTS, free_port


def test_what_somebody_has_is_passed_over_and_where_there_is_none_it_is_said(monkeypatch):
    port = free_port()
    assert FIRST_PORT <= port < FIRST_PORT + PORTS
    other = next(one for one in (free_port() for _ in range(PORT_TRIES)) if one != port)
    drawn = [port - FIRST_PORT, other - FIRST_PORT]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        monkeypatch.setattr(ephemeral.secrets, "randbelow", lambda _: drawn.pop(0))
        assert free_port() == other
        monkeypatch.setattr(ephemeral.secrets, "randbelow", lambda _: port - FIRST_PORT)
        with pytest.raises(OSError, match="none of 100 ports from 20000 on is free"):
            free_port()
