"""The RabbitMQ of ``bench.support.rabbitmq`` as a node of pytest-celery."""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.support.rabbitmq import READY, SERVER, STOP_SECONDS, RabbitMQ, why_absent
from tests.smoke.nodes import ProcessNode

__all__ = ["RabbitNode", "why_absent"]


class RabbitNode(ProcessNode):
    """One broker that can be killed and started again with its data."""

    def __init__(self, folder: Path) -> None:
        self._server = RabbitMQ(folder)
        super().__init__("rabbitmq", [str(SERVER)], self._server.log, READY, folder)

    @property
    def url(self) -> str:
        return self._server.url

    def start(self, extra: Mapping[str, str] | None = None, command: Sequence[str] | None = None) -> None:
        self._server.start()
        self._process = self._server.process

    def kill(self, signal: str | int = "SIGKILL") -> None:
        self._server.kill(getattr(signals, signal) if isinstance(signal, str) else signal)

    def restart(self, timeout: int = STOP_SECONDS) -> None:
        self._server.restart()
        self._process = self._server.process

    def teardown(self) -> None:
        self._server.stop()
