"""Two hosts on one machine: network namespaces joined by a link that can be cut, and a forwarder from TCP to
the embedded servers.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

#: Addresses of the two ends: nobody outside of the namespaces reaches them.
SERVICE, OTHER = "10.77.0.1", "10.77.0.2"
POSTGRES_PORT, VALKEY_PORT = 15432, 16379


class NoNamespacesError(Exception):
    """This machine does not let us make network namespaces; says why."""


@dataclass(frozen=True)
class Hosts:
    """Names of the two namespaces: where the service is, and the other one."""

    service: str
    other: str

    def within(self, host: str, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", host, *command]

    def cut(self) -> None:
        """Nothing passes any more, and nobody is told."""
        _ip("-n", self.service, "link", "set", "jiyi0", "down")

    def heal(self) -> None:
        _ip("-n", self.service, "link", "set", "jiyi0", "up")


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    """Make them; gone afterwards. Raises :class:`NoNamespacesError` where that is not possible."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        raise NoNamespacesError("network namespaces need root and the program `ip`")
    mark = uuid4().hex[:6]
    hosts = Hosts(f"jiyi-a-{mark}", f"jiyi-b-{mark}")
    made: list[str] = []
    try:
        for name in (hosts.service, hosts.other):
            _ip("netns", "add", name)
            made.append(name)
        _ip(
            "-n",
            hosts.service,
            "link",
            "add",
            "jiyi0",
            "type",
            "veth",
            "peer",
            "name",
            "jiyi0",
            "netns",
            hosts.other,
        )
        for name, address in ((hosts.service, SERVICE), (hosts.other, OTHER)):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "jiyi0")
            for device in ("lo", "jiyi0"):
                _ip("-n", name, "link", "set", device, "up")
        yield hosts
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoNamespacesError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


async def forward(ports: dict[int, str]) -> None:
    """Serve each port of the service's address from a unix socket, until ended."""

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()

    def serving(path: str) -> object:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there_reader, there_writer = await asyncio.open_unix_connection(path)
            await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))

        return serve

    servers = [await asyncio.start_server(serving(path), SERVICE, port) for port, path in ports.items()]  # type: ignore[arg-type]
    print("forwarding", flush=True)  # noqa: T201
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(forward({POSTGRES_PORT: sys.argv[1], VALKEY_PORT: sys.argv[2]}))
