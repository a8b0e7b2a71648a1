"""``jiyi connect HOST``: writes what a host needs, after showing the difference; ``--remove`` undoes it."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
import typer

from jiyi.chat.secrets import MASK, masked
from jiyi.cli import output
from jiyi.cli.hook import EVENTS, config_path, places, post, storable
from jiyi.cli.shell import Url, address_of
from jiyi.client.calls import own_zone
from jiyi.errors import SettingsError, words_of
from jiyi.settings import get_settings

#: Seconds after which a host stops waiting for a hook, and how the entries of ours are known.
HOOK_SECONDS, OURS = 5, "jiyi"
BACKUP = ".before-jiyi"
#: Seconds that a host's own API may take.
HOST_SECONDS = 30.0
INTEGRATIONS = Path(__file__).parents[1] / "integrations"
#: What a module of ours has before its other imports, and after its docstring.
FUTURE = "from __future__ import annotations\n"
#: What Open WebUI shows of a function, which it reads from the beginning of its text.
FRONT_MATTER = """\"\"\"
title: Jiyi
description: Memory of your own: what belongs to a message is put before it, and what was said is remembered.
\"\"\"
"""
HERMES_MANIFEST = 'name: jiyi\nversion: "0.1"\ndescription: Jiyi, a memory service of your own\n'
#: The value of a setting that is a key by its name, in JSON or TOML.
_SECRET = re.compile(r"""(?P<name>(?:key|token|secret|password)["']?\s*[:=]\s*["'])[^"']+""", re.IGNORECASE)
#: Around what is ours in a file that is not rewritten.
BEGIN, END = "# jiyi: begin\n", "# jiyi: end\n"

Json = dict[str, Any]


#: What can be connected.
Host = Literal["claude-code", "codex", "cursor", "hermes", "openclaw", "open-webui"]


@dataclass(frozen=True, slots=True)
class ServiceConnection:
    """Address and key of the service, the agent, and the zone of its days unless the agent has one."""

    url: str
    key: str
    agent: str
    tz: str | None = None

    @property
    def server(self) -> Json:
        """The entry of the MCP server."""
        args = ["-m", "jiyi", "mcp", "--agent", self.agent]
        zone = {} if self.tz is None else {"JIYI_TZ": self.tz}
        env = {"JIYI_URL": self.url, "JIYI_KEY": self.key, **zone}
        return {"command": sys.executable, "args": args, "env": env}


#: A file's text with what is ours, or (None) without it.
Edit = Callable[[str, ServiceConnection | None], str]


def _json_edit(change: Callable[[Json, ServiceConnection | None], None]) -> Edit:
    def edit(text: str, connection: ServiceConnection | None) -> str:
        content = json.loads(text) if text.strip() else {}
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")  # noqa: TRY004 – as other content that is wrong
        change(content, connection)
        return json.dumps(content, ensure_ascii=False, indent=2) + "\n" if content else ""

    return edit


def _servers(content: Json, connection: ServiceConnection | None) -> None:
    servers = content.setdefault("mcpServers", {})
    servers.pop(OURS, None)
    if connection is not None:
        servers[OURS] = connection.server
    if not servers:
        del content["mcpServers"]


def _hooks(content: Json, connection: ServiceConnection | None) -> None:
    hooks = content.setdefault("hooks", {})
    for event in EVENTS:
        entries = [entry for entry in hooks.pop(event, []) if not _is_ours(entry)]
        if connection is not None:
            command = f"{shlex.quote(sys.executable)} -m jiyi hook {event}"
            entries.append({"hooks": [{"type": "command", "command": command, "timeout": HOOK_SECONDS}]})
        if entries:
            hooks[event] = entries
    if not hooks:
        del content["hooks"]


def _is_ours(entry: Json) -> bool:
    return any(" -m jiyi hook " in str(hook.get("command")) for hook in entry.get("hooks", []))


def _toml(text: str, connection: ServiceConnection | None) -> str:
    """The text as it was, with our table behind it: nothing else is rewritten."""
    if BEGIN in text and END in text:
        before, _, rest = text.partition(BEGIN)
        text = before.removesuffix("\n") + rest.partition(END)[2]
    if OURS in tomllib.loads(text).get("mcp_servers", {}):
        raise ValueError("it has a server 'jiyi' of its own: remove that first")
    if connection is None:
        return text
    server = connection.server
    lines = [
        f"[mcp_servers.{OURS}]",
        f"command = {json.dumps(server['command'])}",
        f"args = {json.dumps(server['args'])}",
        f"[mcp_servers.{OURS}.env]",
        *(f"{name} = {json.dumps(value)}" for name, value in server["env"].items()),
    ]
    changed = f"{text}\n{BEGIN}" + "\n".join(lines) + f"\n{END}"
    tomllib.loads(changed)
    return changed


def _whole(text: Callable[[ServiceConnection], str]) -> Edit:
    """A file that is all ours."""
    return lambda _text, connection: "" if connection is None else text(connection)


def _constant(text: str) -> Edit:
    return _whole(lambda _: text)


@_whole
def _hook_config(connection: ServiceConnection) -> str:
    return (
        json.dumps({"url": connection.url, "key": connection.key, "agent": connection.agent}, indent=2) + "\n"
    )


def _standalone(module: str) -> str:
    """A module of :mod:`jiyi.integrations` with what it imports of Jiyi in it: the host has no Jiyi."""
    source, common = (
        (INTEGRATIONS / f"{name}.py").read_text(encoding="utf-8") for name in (module, "plug_ins")
    )
    ours = "\n\n".join(inspect.getsource(function) for function in (storable, post))
    common = common.partition(FUTURE)[2].replace("from jiyi.cli.hook import post, storable\n", f"\n{ours}\n")
    return re.sub(
        r"^from jiyi\.integrations\.plug_ins import .*\n", lambda _: common, source, flags=re.MULTILINE
    )


def _openclaw_entry(content: Json, connection: ServiceConnection | None) -> None:
    """A plug-in sees conversations only where its entry allows it."""
    plugins = content.setdefault("plugins", {})
    entries = plugins.setdefault("entries", {})
    entries.pop(OURS, None)
    if connection is not None:
        entries[OURS] = {"enabled": True, "hooks": {"allowConversationAccess": True}}
    for parent, name in ((plugins, "entries"), (content, "plugins")):
        if not parent[name]:
            del parent[name]


def _files(host: Host) -> dict[Path, Edit]:
    home = Path.home()
    if host == "hermes":
        folder = Path(os.environ.get("HERMES_HOME") or home / ".hermes") / "plugins" / "jiyi"
        return {
            folder / "__init__.py": _whole(lambda _: _standalone("hermes")),
            folder / "plugin.yaml": _constant(HERMES_MANIFEST),
            folder / "jiyi.json": _hook_config,
        }
    if host == "openclaw":
        state = Path(os.environ.get("OPENCLAW_STATE_DIR") or home / ".openclaw")
        folder, config = state / "extensions" / "jiyi", os.environ.get("OPENCLAW_CONFIG_PATH")
        files = {path.name: path.read_text("utf-8") for path in sorted((INTEGRATIONS / "openclaw").iterdir())}
        return {
            **{folder / name: _constant(text) for name, text in files.items()},
            folder / "jiyi.json": _hook_config,
            Path(config or state / "openclaw.json"): _json_edit(_openclaw_entry),
        }
    if host == "codex":
        return {Path(os.environ.get("CODEX_HOME") or home / ".codex") / "config.toml": _toml}
    if host == "cursor":
        return {home / ".cursor" / "mcp.json": _json_edit(_servers)}
    return {
        home / ".claude" / "settings.json": _json_edit(_hooks),
        home / ".claude.json": _json_edit(_servers),
        config_path(): _hook_config,
    }


#: How to see that it works.
SEEN: dict[Host, str] = {
    "claude-code": (
        "start `claude`: `/hooks` and `/mcp` list jiyi; what was said is in `jiyi memory list AGENT`"
    ),
    "codex": "start `codex`: `/mcp` lists jiyi",
    "cursor": "Settings → MCP lists jiyi with its tools",
    "openclaw": (
        "`openclaw plugins inspect jiyi --runtime` lists its hooks and tools, once the gateway was restarted"
    ),
    "open-webui": (
        "Admin Panel → Functions lists Jiyi, switched on for all models; a new chat knows what an earlier one"
        " said"
    ),
    "hermes": "`hermes memory setup jiyi` switches it on; `hermes memory status` then names it",
}


def connect(
    host: Annotated[Host, typer.Argument(help="The program that is to remember.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take away what was written.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    agent: Annotated[str, typer.Option(help="The agent.")] = "assistant",
    tz: Annotated[
        str | None,
        typer.Option(
            help="Time zone of the users, for the MCP server and Open WebUI.", show_default="JIYI_TZ"
        ),
    ] = None,
    host_url: Annotated[
        str, typer.Option(envvar="OPEN_WEBUI_URL", help="Of Open WebUI.")
    ] = "http://127.0.0.1:8080",
    host_key: Annotated[
        str, typer.Option(envvar="OPEN_WEBUI_KEY", help="API key of an administrator of Open WebUI.")
    ] = "",
) -> None:
    """Have an assistant remember: its hooks, its MCP server or its plug-in, with the key in JIYI_KEY."""
    settings = get_settings()
    key = settings.key.get_secret_value()
    if not remove and not key:
        raise SettingsError(
            "JIYI_KEY: set it to an API key for this host (`jiyi keys create NAME --scopes publish --scopes"
            " read`)"
        )
    zone = own_zone(settings, tz)
    connection = None if remove else ServiceConnection(address_of(settings, url), key, agent, zone)
    if host == "open-webui":
        _open_webui(connection, host_url, host_key, yes=yes)
        return
    edits = {path: _change(path, edit, connection) for path, edit in _files(host).items()}
    changes = {path: change for path, change in edits.items() if change is not None}
    if not changes:
        output.line("nothing to change")
        return
    for path, (before, after) in changes.items():
        _show(str(path), before, after)
    _ask(yes=yes)
    for path, (before, after) in changes.items():
        _write(path, before, after, removes=remove)
    if remove and host == "claude-code":
        shutil.rmtree(places(), ignore_errors=True)
    _print_outcome(host, connection)


def _show(name: str, before: str, after: str) -> None:
    """The difference, with all keys masked: ours, and those of others in the lines around."""
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm=""):
        typer.echo(_SECRET.sub(r"\g<name>" + MASK, masked(line)))  # with its indentation


def _ask(*, yes: bool) -> None:
    if not yes and not typer.confirm("Write this?"):
        raise typer.Exit(1)


def _print_outcome(host: Host, connection: ServiceConnection | None) -> None:
    if connection is None:
        output.line("removed")
    else:
        output.line(f"connected; to see that it works: {SEEN[host].replace('AGENT', connection.agent)}")


def _open_webui(connection: ServiceConnection | None, url: str, key: str, *, yes: bool) -> None:
    """Open WebUI keeps functions in its database: its API writes them; their valves hold address and key."""
    if not key:
        raise SettingsError(
            "OPEN_WEBUI_KEY: set it to an administrator's API key (Settings → Account → API keys in Open"
            " WebUI)"
        )
    try:
        base, headers = f"{url.rstrip('/')}/api/v1/functions", {"Authorization": f"Bearer {key}"}
        with httpx2.Client(base_url=base, headers=headers, timeout=HOST_SECONDS) as api:
            _write_function(api, connection, yes=yes)
    except httpx2.HTTPStatusError as error:
        text = error.response.text[:300]
        raise SettingsError(
            f"Open WebUI at {url} answers {error.response.status_code} to {error.request.url.path}: {text}"
        ) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise SettingsError(f"--host-url: Open WebUI does not answer at {url}: {words_of(error)}") from None


def _write_function(api: httpx2.Client, connection: ServiceConnection | None, *, yes: bool) -> None:
    def call(method: str, path: str, content: Json | None = None) -> Any:
        response = api.request(method, path, json=content)
        response.raise_for_status()
        return response.json()

    existing = next((function for function in call("GET", "/export") if function["id"] == OURS), None)
    if connection is None and existing is None:
        output.line("nothing to change")
        return
    before = "" if existing is None else str(existing["content"])
    after = "" if connection is None else FRONT_MATTER + _standalone("open_webui").partition(FUTURE)[2]
    if before != after:
        _show("function jiyi", before, after)
        _ask(yes=yes)
    if connection is None:
        call("DELETE", f"/id/{OURS}/delete")
    else:
        valves = {
            "url": connection.url,
            "key": connection.key,
            "agent": connection.agent,
            "tz": connection.tz or "",
        }
        meta = {"description": "Memory of your own", "manifest": {}}
        form = {"id": OURS, "name": "Jiyi", "content": after, "meta": meta}
        function = call("POST", "/create" if existing is None else f"/id/{OURS}/update", form)
        call("POST", f"/id/{OURS}/valves/update", {**(call("GET", f"/id/{OURS}/valves") or {}), **valves})
        for field, path in (("is_active", "toggle"), ("is_global", "toggle/global")):
            if not function[field]:
                call("POST", f"/id/{OURS}/{path}")
    _print_outcome("open-webui", connection)


def _change(path: Path, edit: Edit, connection: ServiceConnection | None) -> tuple[str, str] | None:
    """The file's text before and after; None: no change. Raises :class:`SettingsError`."""
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = edit(before, connection)
        backup = _backup(path)
        if connection is None and backup.exists() and edit(backup.read_text(encoding="utf-8"), None) == after:
            after = backup.read_text(encoding="utf-8")  # nothing else changed: as it was, to the byte
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise SettingsError(f"{path}: {error}; the file is unchanged: correct it, and try again") from None
    return None if before == after else (before, after)


def _backup(path: Path) -> Path:
    return path.with_name(path.name + BACKUP)


def _write(path: Path, before: str, after: str, *, removes: bool) -> None:
    """In one step, for nobody else to read: a key is in it."""
    backup = _backup(path)
    if not after:
        path.resolve().unlink()  # where a link leads, the key is
    else:
        path.resolve().parent.mkdir(parents=True, exist_ok=True)
        if before and not removes and not backup.exists():
            _replace(backup, before)
        _replace(path, after)
    if removes:
        backup.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    path = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).replace(path)
