"""``jiyi up`` and ``make run``: the whole service on its own database and broker."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import secrets
import shlex
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from engine.providers.embedder_specs import configured_spec
from jiyi import Client
from jiyi.errors import JiyiError, SettingsError
from jiyi.protocol.accounts import AddPerson, hash_password, make_password
from jiyi.protocol.wire.signatures import key_of, need_secret_key
from jiyi.settings import RUN_ENV, SECRET_FILE, default_home, get_settings
from models.accounts import users
from models.accounts.actions import add_person
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from workers import demo, ephemeral
from workers.embedded.stack import HomeInUse, Stack, StackError
from workers.migrate import upgrade
from workers.procfile import commands
from workers.supervision.supervise import run

#: Copies that may run side by side without a home of their own in ``JIYI_HOME``.
MAX_COPIES = 9
#: Ports tried above the first, unless one is asked for.
PORTS_TRIED = 50
READY_SECONDS = 180
console = Console(highlight=False)
SECRET_BYTES = 32
#: Who runs the copy.
ADMIN = "admin"
#: The key of those who try the copy: its name, and the file in the home that keeps it.
KEY_NAME, KEY_FILE = "make run", "try_key"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="jiyi up", description="Run the whole service on this machine.")
    parser.add_argument(
        "--demo", action="store_true", help="play the sample diary and answer three questions"
    )
    parser.add_argument("--once", action="store_true", help="end when it is ready, and the demo is over")
    parser.add_argument("--verbose", action="store_true", help="show what the processes print")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the supervisor is in charge
    try:
        return up(demo_too=options.demo, once=options.once, verbose=options.verbose)
    except KeyboardInterrupt:
        return 130
    except (StackError, JiyiError) as error:
        stderr = Console(stderr=True, highlight=False)
        stderr.print(f"jiyi up: {error}", style="red", markup=False, soft_wrap=True)
        return 1


def up(*, demo_too: bool, once: bool, verbose: bool) -> int:
    """Start everything; return the exit code when it has ended."""
    for name in ("JIYI_DATABASE_URL", "JIYI_BROKER_URL", "JIYI_REDIS_URL"):
        if os.environ.get(name):
            raise SettingsError(
                f"{name} is set, but this command runs a database and broker of its own: unset it, or start"
                " the processes of the service one by one (docs/deployment.md)"
            )
    # some program's, which may do less: calls from here are signed with the service's own secret
    os.environ.pop("JIYI_KEY", None)
    configured_spec(get_settings())  # says what is wrong with the settings before anything is started
    with contextlib.ExitStack() as closing:
        stack = start_stack()
        closing.callback(stack.stop)
        with ephemeral.environment(home=str(stack.home)):  # not the settings that another running copy left
            port = choose_port()
        addresses = {"home": str(stack.home), **asdict(stack.urls), "web_port": str(port)}
        # The secret is for the processes only: the note that other programs find has no need of it.
        with ephemeral.environment(**addresses, secret_key=secret_key(stack.home)):
            upgrade()
            password = create_admin()
            admin = f"http://{get_settings().web_host}:{port}/"
            stack.announce(admin)
            note = leave_addresses(stack.home, addresses)
            try:
                work = foreground(admin, password, stack, demo_too=demo_too, once=once)
                return run(commands(), dict(os.environ), quiet=not verbose, on_started=work, stack=stack)
            finally:
                note.unlink(missing_ok=True)


def foreground(
    admin: str, password: str | None, stack: Stack, *, demo_too: bool, once: bool
) -> Callable[[], int | None]:
    """What is done once the processes are started. ``password``: of the first person, if new."""

    def work() -> int | None:
        with console.status("starting the workers …"):
            ephemeral.await_answers(READY_SECONDS)
        if demo_too:
            demo.play(console)
        console.print(f"\n[bold]Admin[/bold]  {admin}")
        console.print(signing_in(password), soft_wrap=True, markup=False)
        console.print(f"Data   {stack.home}", soft_wrap=True)
        console.print(f"Logs   {stack.log_dir}", soft_wrap=True)
        if once:
            return 0
        lines = tries(stack.home, admin, demo_too=demo_too)
        console.print("\nTo be pasted into another shell:", *lines, sep="\n", soft_wrap=True, markup=False)
        console.print("\nCtrl-C ends it.")
        return None

    return work


def tries(home: Path, admin: str, *, demo_too: bool) -> list[str]:
    """Lines for another shell, whatever it has set: this checkout's command line, and a request."""
    group, agent, question = get_settings().group, "klaus", "What does Klaus read?"
    if demo_too:
        group, agent, question = demo.GROUP, "Tomas", "What happened with the bees?"
    program = str(Path(sys.executable).with_name("jiyi"))
    command = shlex.join([program, "retrieve", agent, question, "--group", group])
    key = program_key(home, group)
    body = json.dumps({"agent_id": agent, "query": question, "top_k": 3})
    headers = f"-H 'Authorization: Bearer {key}' -H 'Content-Type: application/json'"
    return [
        f"JIYI_HOME={shlex.quote(str(home))} {command}",
        f"curl {admin}api/v1/retrieve {headers} -d {shlex.quote(body)}",
    ]


def signing_in(password: str | None) -> str:
    """How to get in. The password is shown only this once: only its hash is stored."""
    command = f"jiyi people set_password {ADMIN}"
    if password is None:
        return f"Sign in  as before; a new password: {command}"
    name = f"Sign in  name: {ADMIN}  password: {password}"
    return f"{name}\n         shown only this once; set your own: {command}"


def start_stack() -> Stack:
    """The embedded servers, in the home asked for, or the first free one. Raises :class:`StackError`."""
    home = default_home()
    is_set = bool(os.environ.get("JIYI_HOME"))
    for copy in range(1, MAX_COPIES + 1):
        stack = Stack(home if copy == 1 else home.with_name(f"{home.name}-{copy}"))
        try:
            with console.status("starting PostgreSQL and Valkey …"):
                stack.start()
        except HomeInUse as error:
            if is_set or copy == MAX_COPIES:
                raise
            used = f"{error.home} is in use by another copy; trying the next one"
            console.print(f"[dim]{used}[/dim]", soft_wrap=True)
        except BaseException:
            stack.stop()
            raise
        else:
            return stack
    raise AssertionError("unreachable")


def choose_port() -> int:
    """The port for the admin: as set, or the first free one. Raises :class:`SettingsError`."""
    settings = get_settings()
    is_set = "web_port" in settings.model_fields_set
    tried = 1 if is_set else PORTS_TRIED
    for port in range(settings.web_port, min(settings.web_port + tried, 65_536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.web_host, port))
                if is_set or reserve(port):
                    return port
            except OSError as error:
                if is_set:
                    raise SettingsError(
                        f"JIYI_WEB_PORT: port {port} cannot be used ({error.strerror}); choose another one"
                    ) from None
    raise SettingsError(f"JIYI_WEB_PORT: no free port from {settings.web_port} on; choose one")


def reserve(port: int) -> bool:
    """Whether no other copy of this user is about to use the port: the admin takes it only seconds later."""
    path = Path(tempfile.gettempdir()) / f"jiyi-{os.geteuid()}-port-{port}.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    return True  # held until this process ends


def leave_addresses(home: Path, addresses: dict[str, str]) -> Path:
    """A note where the command line looks for the running copy (``jiyi.settings``)."""
    note = home / RUN_ENV
    note.touch(mode=0o600)  # before anything is in it
    note.chmod(0o600)
    lines = [f"JIYI_{name.upper()}='{value}'\n" for name, value in addresses.items()]
    note.write_text("".join(lines), encoding="utf-8")
    return note


def secret_key(home: Path) -> str:
    """The secret that is set, else this home's own, made once. Raises :class:`SettingsError`."""
    if get_settings().secret_key.get_secret_value():
        return need_secret_key(get_settings())
    file = home / SECRET_FILE
    with contextlib.suppress(FileExistsError):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="ascii") as stream:
            stream.write(secrets.token_hex(SECRET_BYTES))
    key = file.read_text(encoding="ascii").strip()
    if not key:
        raise SettingsError(f"JIYI_SECRET_KEY: {file} is empty; delete it, and another one is made")
    return key


def program_key(home: Path, group: str) -> str:
    """A key to publish and read, kept beside the data; replaced if revoked or another group's."""
    file = home / KEY_FILE
    with Client(group) as client:
        keys = [key for key in client.keys.list() if key.revoked_at is None and key.expires_at is None]
        key_ids = {key.key_id for key in keys}
        saved_text = file.read_text(encoding="ascii").strip() if file.exists() else ""
        if saved_text and (kept_key := key_of(saved_text)) is not None and kept_key.key_id in key_ids:
            return saved_text
        text = client.keys.create(KEY_NAME).text
    file.touch(mode=0o600)
    file.write_text(text, encoding="ascii")
    return text


def create_admin() -> str | None:
    """Make the first person of a service that has none; the password, which nobody can look up later."""
    with whole_service(), unit_of_work() as connection:
        if users.any_at_all(connection):
            return None
    password = make_password()
    first = AddPerson(name=ADMIN, password_hash=hash_password(password), role="operator")
    add_person.perform(Actor(get_settings().group, "jiyi up", operator=True), first)
    return password


if __name__ == "__main__":
    sys.exit(main())
