"""``jiyi hook EVENT``: what a host runs before an answer and after it (``jiyi connect``).

Whatever goes wrong is silence: the host goes on without memory. A later hook publishes what was said
meanwhile (:func:`places`). A host waits for it, so only the standard library is imported.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TextIO, TypedDict, cast

from jiyi.chat.hosts import own_words, texts

#: Seconds that the service may take.
SECONDS = 1.0
#: Seconds that a hook may publish, and that each batch has at least: the host waits, and ends it after five.
#: A later hook goes on.
PUBLISH_SECONDS, LEAST_SECONDS = 2.0, 0.5
#: Turns of one publication, and lines that are read for it: most lines hold no turn.
BATCH, LINES = 50, 500
#: Bytes of a line (some hold pictures), and characters of a turn.
LINE_BYTES, MAX_CHARS = 16_000_000, 20_000
#: Statuses of what is wrong in itself: to send it again is of no use.
REFUSED = (400, 409, 413, 422)
#: Namespace of the ids of turns.
TURNS = "5d7a1a86-2f0c-5b57-9a55-0f2c6b7f1c33"

#: A turn as the service takes it.
Event = dict[str, Any]


class TranscriptPosition(TypedDict):
    """Of a transcript: its session, bytes published, bytes seen by the last hook, and under which key."""

    transcript: str
    session: str
    at: int
    seen: int
    key: str


def config_path() -> Path:
    """Where ``jiyi connect`` leaves the service's address, the key, and the agent."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "jiyi" / "hook.json"


def places() -> Path:
    """The folder with a file a session: how far its transcript is published. Losing it only costs time."""
    return config_path().with_name("published")


def main(arguments: list[str], reading: TextIO = sys.stdin, writing: TextIO = sys.stdout) -> int:
    """Never anything but 0: a host may take another code for a reason to stop."""
    try:
        config = {**json.loads(config_path().read_text(encoding="utf-8")), "seconds": SECONDS}
        payload = json.load(reading)
        event = arguments[0] if arguments else str(payload.get("hook_event_name"))
        answer = EVENTS[event](config, payload)
        if answer:
            output = {"hookEventName": event, "additionalContext": answer}
            writing.write(json.dumps({"hookSpecificOutput": output}) + "\n")
            writing.flush()
        if event == "SessionStart":
            _make_up(config)
    except Exception as error:  # noqa: BLE001 – whatever it is, the host goes on
        if "--debug" in arguments:
            sys.stderr.write(f"jiyi hook: {error!r}\n")
    return 0


def _recall(config: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    """What belongs before the answer to a prompt; days are those of this machine's clock."""
    from datetime import datetime

    query, now = storable(str(payload["prompt"]))[:4_000], datetime.now().astimezone().isoformat()
    body = {"agent_id": config["agent"], "query": query, "session_id": payload["session_id"], "now": now}
    return str(post(config, "/actions/conversations.context", body)["context"])


def _opening(config: Mapping[str, Any], _payload: Mapping[str, Any]) -> str:
    """What stays the same through a session."""
    body = {"agent_id": config["agent"], "query": ".", "split": True}
    return str(post(config, "/actions/conversations.context", body)["stable"])


def _record(config: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    """Publish what was said since the last time."""
    transcript, session = Path(payload["transcript_path"]), str(payload["session_id"])
    file, size = places() / f"{_mark(session)}.json", transcript.stat().st_size
    new = TranscriptPosition(
        transcript=str(transcript), session=session, at=0, seen=0, key=_mark(config["key"])
    )
    place = _place(file) or new
    if place["transcript"] != str(transcript) or place["at"] > size:  # rewritten
        place["transcript"], place["at"], place["seen"] = str(transcript), 0, 0
    _leave_out_what_waited(config, place)
    place["seen"] = size
    _note(file, place)
    _publish(config, file, place, time.monotonic() + PUBLISH_SECONDS)
    return ""


def _make_up(config: Mapping[str, Any]) -> None:
    """Publish what earlier sessions said while the service was away."""
    until = time.monotonic() + PUBLISH_SECONDS
    for file in sorted(places().glob("*.json"), key=lambda file: file.stat().st_mtime):
        place = _place(file)
        if place is None or not Path(place["transcript"]).exists():
            file.unlink()
        elif place["at"] < place["seen"]:
            _leave_out_what_waited(config, place)
            _note(file, place)
            _publish(config, file, place, until)


def _leave_out_what_waited(config: Mapping[str, Any], place: TranscriptPosition) -> None:
    """If it waited under another key, whose group may be another."""
    if place["key"] != _mark(config["key"]):
        if place["at"] < place["seen"]:
            what = f"what {place['session']} said under another key"
            _say(f"{what}, while the service was away, is not remembered")
        place["at"], place["key"] = place["seen"], _mark(config["key"])


def _publish(config: Mapping[str, Any], file: Path, place: TranscriptPosition, until: float) -> None:
    """What a transcript says from the noted place on, batch by batch; the place is noted after each."""
    with Path(place["transcript"]).open("rb") as transcript:
        transcript.seek(place["at"])
        read = 1
        while read and (remaining := until - time.monotonic()) > 0:
            turns, read = _batch(transcript, place["session"], config["agent"])
            _send({**config, "seconds": max(remaining, LEAST_SECONDS)}, turns)
            place["at"] += read
            place["seen"] = max(place["at"], place["seen"])
            _note(file, place)


def _batch(transcript: IO[bytes], session: str, agent: str) -> tuple[list[Event], int]:
    """The turns of the next lines, and the bytes of the whole ones: the last may still be written."""
    turns: list[Event] = []
    read = 0
    for _ in range(LINES):
        line = transcript.readline(LINE_BYTES)
        whole = line.endswith(b"\n") or len(line) == LINE_BYTES
        read += len(line) if whole else 0
        try:
            turns += turns_of(line, session, agent) if line else ()
        except Exception as error:  # noqa: BLE001 – a line that is wrong, in whichever way, stops no other
            if whole:
                _say(f"a line of {session} is left out: {error!r}"[:300])
        if not whole or len(turns) >= BATCH:
            break
    return turns, read


def _send(config: Mapping[str, Any], turns: list[Event]) -> None:
    """Events are stored together or not at all: what is refused is halved until the wrong ones show."""
    if not turns:
        return
    try:
        post(config, "/events", {"events": turns})
    except ValueError as error:
        if error.args[0] not in REFUSED:
            raise
        if len(turns) == 1:
            _say(f"the service refuses a turn, which is left out: {error}")
            return
        middle = len(turns) // 2
        _send(config, turns[:middle])
        _send(config, turns[middle:])


def _mark(text: object) -> str:
    """A hash that identifies a text without revealing it."""
    from hashlib import sha256

    return sha256(str(text).encode(errors="replace")).hexdigest()[:32]


def _place(file: Path) -> TranscriptPosition | None:
    """What was noted; None if that is nothing, or cannot be read."""
    try:
        place = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_valid = isinstance(place, dict) and place.keys() >= TranscriptPosition.__annotations__.keys()
    return cast("TranscriptPosition", place) if is_valid else None


def _note(file: Path, place: TranscriptPosition) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(place), encoding="utf-8")
    part.replace(file)


def _say(what: str) -> None:
    sys.stderr.write(f"jiyi hook: {what}\n")


EVENTS = {"UserPromptSubmit": _recall, "SessionStart": _opening, "Stop": _record, "PreCompact": _record}


def turns_of(line: bytes, session: str, agent: str) -> Iterator[Event]:
    """The turn of a transcript's line, which is a JSON object, as an event; none if it is something else."""
    from uuid import UUID, uuid5

    entry = json.loads(line.decode(errors="replace"))
    role = entry.get("type") if isinstance(entry, dict) else None
    if role not in ("user", "assistant") or entry.get("isMeta") or entry.get("isSidechain"):
        return
    message = entry.get("message")
    parts = texts(message.get("content") if isinstance(message, dict) else message)
    text = storable("\n".join(map(own_words, parts) if role == "user" else parts)).strip()
    if text:
        known_by = entry.get("uuid") or line.strip().hex()
        yield {
            "type": "turn.recorded",
            "event_id": str(uuid5(UUID(TURNS), f"{session}\n{known_by}")),
            **_time(entry.get("timestamp")),
            "agent_id": agent,
            "session_id": session,
            "payload": {"role": role, "text": text[:MAX_CHARS]},
        }


def _time(timestamp: object) -> dict[str, str]:
    """When it was said, by the clock of this machine; now, if that cannot be read."""
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(str(timestamp))
    except ValueError:
        return {}
    return {"occurred_at": moment.astimezone().isoformat()} if moment.tzinfo else {}


def storable(text: str) -> str:
    """A text without what the database cannot hold: NUL, halves of surrogate pairs."""
    return text.replace("\0", "").encode(errors="ignore").decode()


def post(config: Mapping[str, Any], path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What the service answers. Imports all that it needs: ``jiyi connect`` copies it into plug-ins.

    Raises:
        OSError: the service is away.
        ValueError: it refuses; its arguments are the status and the answer's beginning.
    """
    import json
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    url = urlsplit(config["url"])
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.netloc, timeout=config["seconds"])
    headers = {"Authorization": f"Bearer {config['key']}", "User-Agent": "jiyi-hook"}
    headers["Content-Type"] = "application/json"
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
