"""``jiyi up``, ``backup``, ``restore`` and ``doctor``, which need a checkout; ``mcp`` and ``proxy``."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import jiyi
from jiyi.cli import output
from jiyi.cli.shell import Json, Url, address_of
from jiyi.client.client import needs_broker
from jiyi.errors import InvalidRequest, JiyiError, SettingsError
from jiyi.extras import install_command
from jiyi.protocol.conversations import BUDGET, MAX_BUDGET
from jiyi.protocol.limits import MOST_TRUSTED_SECONDS, TRUSTED_SECONDS
from jiyi.protocol.wire.signatures import key_of
from jiyi.settings import Settings, get_settings


class NoCheckout(JiyiError):  # noqa: N818 – its name says what happened
    """Only the client is installed."""

    code = "no_checkout"


def up(
    once: Annotated[bool, typer.Option("--once", help="End when it is ready.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Play the sample diary and answer three questions.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what the processes print.")] = False,
    as_json: Json = False,  # noqa: ARG001
) -> None:
    """Start the service with its own PostgreSQL and Valkey; Ctrl-C stops it."""
    become("up", "jiyi up", _flags(once=once, demo=demo, verbose=verbose))


def backup(
    path: Annotated[
        Path | None, typer.Argument(help="A file that does not exist yet.", show_default="a new one")
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy the whole database to a file, running or not, and check that it can be read back."""
    arguments = ["backup", *([] if path is None else [str(path.absolute())])]
    become("backup", "jiyi backup", [*arguments, *_flags(json=as_json)])


def restore(
    path: Annotated[Path, typer.Argument(help="A backup.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace the data that is there, after a backup of it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put a backup in the place of an empty database, while the service is stopped."""
    arguments = ["restore", str(path.absolute())]
    become("backup", "jiyi restore", [*arguments, *_flags(force=force, json=as_json)])


def _flags(**flags: bool) -> list[str]:
    return [f"--{name}" for name, is_set in flags.items() if is_set]


def become(program: str, command: str, arguments: list[str]) -> None:
    """Run a program of the service (a module of ``workers``) in the place of this process."""
    root = checkout(command)
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    sys.stdout.flush()
    os.chdir(root)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    words = [sys.executable, "-m", f"workers.{program}", *arguments]
    os.execve(sys.executable, words, environment)  # noqa: S606


def checkout(command: str = "jiyi up") -> Path:
    """The folder that holds this package and the service's. Raises :class:`NoCheckout`."""
    root = Path(jiyi.__file__).resolve().parents[1]
    if not (root / "workers" / "up.py").is_file():
        raise NoCheckout(
            f"`{command}` needs a checkout of the service, and {root} is none: only the client is installed."
            " Clone the repository and run it there, or set JIYI_BROKER_URL and JIYI_REDIS_URL to a running"
            " service"
        )
    return root


#: Beside the service's own 8765.
DEFAULT_PORT = 8766


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP at /mcp; every request has its own API key.")
    ] = False,
    url: Url = None,
    host: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="With --http: the port to listen on.", min=0, max=65_535)
    ] = DEFAULT_PORT,
    agent: Annotated[str, typer.Option(help="The agent where a call names none.")] = "",
) -> None:
    """Serve memory to an LLM's host over the Model Context Protocol; JIYI_KEY bounds what it may do."""
    settings = get_settings()
    address = address_of(settings, url)
    key = settings.key.get_secret_value()
    if not http and not key:
        raise SettingsError(
            "JIYI_KEY: set it to an API key (`jiyi keys create NAME --scopes publish --scopes read`), which"
            " bounds the tools"
        )
    stdout = None if http else own_stdout()
    try:
        from mcp.shared.exceptions import MCPError

        from jiyi.integrations import mcp as serving
    except ImportError as error:
        raise SettingsError(f"jiyi mcp needs the package {error.name}: {install_command('mcp')}") from None
    if stdout is not None:
        try:
            asyncio.run(serving.serve_stdio(address, key, stdout, agent.strip()))
        except MCPError as error:  # a wrong address or key
            raise SettingsError(f"JIYI_URL, JIYI_KEY: {error.message}") from None
        return
    serve(serving.http_app(address, host, settings.mcp_url, agent.strip()), "mcp", host, port, "/mcp")


def own_stdout() -> TextIOWrapper:
    """What was stdout, for the protocol alone: what a dependency prints from now on goes to stderr."""
    sys.stdout.flush()
    raw = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return TextIOWrapper(raw, encoding="utf-8")


def serve(app: Any, what: str, host: str, port: int, path: str) -> None:
    """Serve an ASGI application until interrupted. Raises :class:`SettingsError`."""
    import uvicorn

    from jiyi.cli.listening import SWITCH_INTERVAL, Impatient

    # With the protocol named: asyncio has only such sockets send small pieces at once (TCP_NODELAY), else
    # each waits 40 ms.
    listening = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                f"--port: {port} of {host} is taken by another program; choose another one"
            ) from None
        raise SettingsError(
            f"--host: cannot listen on {host}, port {port}: {error.strerror or error}"
        ) from None
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    # to look through all modules for garbage takes a tenth of a second, in which nobody is answered
    gc.freeze()
    output.line(f"{what}: http://{host}:{listening.getsockname()[1]}{path}")
    with suppress(KeyboardInterrupt):
        config = uvicorn.Config(
            app, http=Impatient, ws="none", log_level="warning", timeout_graceful_shutdown=5
        )
        uvicorn.Server(config).run(sockets=[listening])


#: Beside those of the service and of ``jiyi mcp``; and addresses that only this machine reaches.
PROXY_PORT, LOOPBACK = 8767, ("127.0.0.1", "localhost")


def proxy(
    url: Url = None,
    broker: Annotated[
        bool,
        typer.Option("--broker", help="Recall over JIYI_BROKER_URL and JIYI_REDIS_URL, which is faster."),
    ] = False,
    openai: Annotated[
        str, typer.Option(help="Upstream of all but /v1/messages; its key: OPENAI_API_KEY.")
    ] = "https://api.openai.com/v1",
    anthropic: Annotated[
        str, typer.Option(help="Upstream of /v1/messages; its key: ANTHROPIC_API_KEY.")
    ] = "https://api.anthropic.com/v1",
    agent: Annotated[str, typer.Option(help="The agent, unless X-Jiyi-Agent says so.")] = "assistant",
    upstreams: Annotated[
        Path | None, typer.Option(help="JSON file of upstreams by the id of who calls' key.", dir_okay=False)
    ] = None,
    budget: Annotated[
        int, typer.Option(min=1, max=MAX_BUDGET, help="Most tokens of memories in a request.")
    ] = BUDGET,
    trust: Annotated[
        float,
        typer.Option(
            min=0,
            max=MOST_TRUSTED_SECONDS,
            help=(
                "Seconds for which a key that was known is lent the upstream's while the service cannot be"
                " asked."
            ),
        ),
    ] = TRUSTED_SECONDS,
    where: Annotated[
        Literal["system", "user"],
        typer.Option(
            "--in",
            help="Where lasting memories go: behind the system prompt, or before the user's first message.",
        ),
    ] = "system",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.", min=0, max=65_535)] = PROXY_PORT,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="A name under which programs reach it; repeatable.", show_default="localhost, 127.0.0.1"
        ),
    ] = None,
) -> None:
    """Stand before an LLM's API and remember: programs need another address, and no code."""
    settings = get_settings()
    local = host in LOOPBACK
    key_of(settings.key.get_secret_value())  # its form is said now, not with each request
    if not local and settings.key.get_secret_value():
        raise SettingsError(
            f"JIYI_KEY: everyone who reaches {host} would have its memory; unset it, and each caller sends a"
            " key of their own"
        )
    if not local and not name:
        raise SettingsError(
            f"--name: say under which name programs reach {host}, such as --name llm.example.org"
        )
    try:
        from jiyi.proxy.app import ProxyConfig, Upstream, make_app, upstreams_of
    except ImportError as error:
        raise SettingsError(
            f"jiyi proxy needs the package {error.name}: {install_command('proxy')}"
        ) from None
    try:
        by_key = {} if upstreams is None else upstreams_of(upstreams.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, InvalidRequest) as error:
        raise SettingsError(f"--upstreams: {upstreams}: {error}") from None
    config = ProxyConfig(
        service=address_of(settings, url),
        openai=Upstream(openai, os.environ.get("OPENAI_API_KEY", "")),
        anthropic=Upstream(anthropic, os.environ.get("ANTHROPIC_API_KEY", "")),
        key=settings.key.get_secret_value(),
        agent=agent,
        max_tokens=budget,
        upstreams=by_key,
        trust_seconds=trust,
        broker=_with_broker(settings) if broker else None,
        hosts=(*LOOPBACK, *(name or ())),
        where=where,
    )
    serve(make_app(config), "proxy", host, port, "/v1")


def _with_broker(settings: Settings) -> Settings:
    """Raises :class:`SettingsError` for addresses or packages that are missing."""
    try:
        import jiyi.client.broker  # noqa: F401 – late: it is large
    except ModuleNotFoundError as error:
        raise needs_broker(error) from None
    for address in ("broker_url", "redis_url"):
        settings.need(address)
    return settings


def doctor(as_json: Json = False) -> None:
    """Is everything all right? Servers, workers, queues, jobs, backups, providers, the database's collation.

    Runs where the service runs. Ends with 0 if nothing is wrong, 1 if something needs attention, 2 if
    something cannot be reached.
    """
    become("doctor", "jiyi doctor", _flags(json=as_json))
