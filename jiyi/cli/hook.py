"""``jiyi hook EVENT``: what a host runs before an answer and after it (``jiyi connect``). Small, since a host waits for it.

It reads what the host says on its standard input, and answers in the host's form. A service that is away, or anything else that goes
wrong, is silence: the host goes on without memory. Nothing outside the standard library is imported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

#: Seconds that the service may take.
SECONDS = 1.0
#: Latest turns of a transcript that are told, each known by its id: those told before are not stored again.
LATEST = 50
#: Bytes of a transcript's end that are read, and characters of a turn.
TAIL_BYTES, MAX_CHARS = 2_000_000, 20_000
#: Namespace of the ids of turns.
TURNS = "5d7a1a86-2f0c-5b57-9a55-0f2c6b7f1c33"
#: Texts that a host writes into a transcript in its user's name begin so.
NOT_SAID = ("<command-", "<local-command", "<system-reminder", "Caveat:")


def config_path() -> Path:
    """Where ``jiyi connect`` leaves the service's address, the key, and whose memory it is."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "jiyi" / "hook.json"


def main(arguments: list[str], reading: TextIO = sys.stdin, writing: TextIO = sys.stdout) -> int:
    """Never anything but 0: a host may take another code for a reason to stop."""
    try:
        config = {**json.loads(config_path().read_text(encoding="utf-8")), "seconds": SECONDS}
        given = json.load(reading)
        event = arguments[0] if arguments else str(given.get("hook_event_name"))
        answer = EVENTS[event](config, given)
        if answer:
            writing.write(json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": answer}}) + "\n")
    except Exception as error:  # noqa: BLE001 – whatever it is, the host goes on
        if "--debug" in arguments:
            sys.stderr.write(f"jiyi hook: {error!r}\n")
    return 0


def _recall(config: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """What belongs before the answer to a prompt."""
    asked = {"agent_id": config["agent"], "query": str(given["prompt"])[:4_000], "session_id": given["session_id"]}
    return str(post(config, "/actions/conversations.context", asked)["context"])


def _opening(config: Mapping[str, Any], _given: Mapping[str, Any]) -> str:
    """What stays the same through a session."""
    return str(post(config, "/actions/conversations.context", {"agent_id": config["agent"], "query": ".", "split": True})["stable"])


def _record(config: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Tell what was said last."""
    turns = list(_turns(Path(given["transcript_path"]), given["session_id"], config["agent"]))[-LATEST:]
    if turns:
        post(config, "/events", {"events": turns})
    return ""


EVENTS = {"UserPromptSubmit": _recall, "SessionStart": _opening, "Stop": _record, "PreCompact": _record}


def _turns(transcript: Path, session: str, agent: str) -> Iterator[dict[str, Any]]:
    """The turns of a transcript, a JSON object a line, as events."""
    from uuid import UUID, uuid5

    namespace = UUID(TURNS)
    with transcript.open("rb") as file:
        file.seek(max(0, transcript.stat().st_size - TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:  # the first one, cut
            continue
        role = entry.get("type") if isinstance(entry, dict) else None
        if role not in ("user", "assistant") or entry.get("isMeta") or entry.get("isSidechain"):
            continue
        text = _text(entry.get("message", {}).get("content"))
        if text and not text.startswith(NOT_SAID):
            yield {
                "type": "turn.recorded",
                "event_id": str(uuid5(namespace, f"{session}\n{entry['uuid']}")),
                "occurred_at": entry["timestamp"],
                "agent_id": agent,
                "session_id": session,
                "payload": {"role": role, "text": text[:MAX_CHARS]},
            }


def _text(content: object) -> str:
    """What a message says, without calls of tools and their results."""
    if isinstance(content, str):
        return content.strip()
    blocks = content if isinstance(content, list) else []
    return "\n".join(block["text"] for block in blocks if isinstance(block, dict) and block.get("type") == "text").strip()


def post(config: Mapping[str, Any], path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What the service answers; ``jiyi connect`` writes this function into plug-ins, too, so that it imports all that it needs.

    Raises:
        OSError: the service is away.
        ValueError: it refuses; its arguments are the status and the answer's beginning.
    """
    import json
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    url = urlsplit(config["url"])
    connection = (HTTPSConnection if url.scheme == "https" else HTTPConnection)(url.netloc, timeout=config["seconds"])
    headers = {"Authorization": f"Bearer {config['key']}", "Content-Type": "application/json", "User-Agent": "jiyi-hook"}
    try:
        connection.request("POST", f"{url.path.rstrip('/')}/api/v1{path}", json.dumps(body).encode(), headers)
        response = connection.getresponse()
        content = response.read()
    except HTTPException as error:  # the answer broke off
        raise OSError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if response.status >= 300:
        raise ValueError(response.status, content[:300])
    answer: dict[str, Any] = json.loads(content)
    return answer
