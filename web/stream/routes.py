"""``/api/v1/stream``: what changes in a group, as it changes, as server-sent events (``docs/api.md``).

A client holds one of the server's threads for as long as it watches. So their number is bounded, none stays for ever, and
one that does not read is cut off: after that its thread serves others.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import redis
from flask import Blueprint, Flask, Response, abort, request

from jiyi.protocol.base import unstorable
from jiyi.protocol.openapi.document import PREFIX
from models.db.bounded_reads import Unanswered, one_line
from models.queue import stream
from models.queue.stream import KINDS, place
from models.queue.stream_hub import TooManyWatchers, Watcher, hub
from web.accounts import sessions
from web.accounts.api_keys import identify_again, identify_by_key
from web.accounts.identity import Identity, need
from web.accounts.signin import identity_of
from web.api.problems import answer_to, problem
from web.api.running import group_of
from web.stream.sending import Client, Sending, event

programs, people = Blueprint("stream", __name__), Blueprint("live", __name__)

#: Milliseconds after which a client that was cut off comes back.
RETRY_MS = 2_000
#: Seconds after which one that was turned away may try again.
RETRY_AFTER = {429: 30, 503: 10}


@programs.before_request
def _identify() -> None:
    identify_by_key()


@programs.errorhandler(Exception)
def _problem(error: Exception) -> Response:
    return answer_to(error)


@programs.get(f"{PREFIX}/stream")
def api() -> Response:
    """For programs; needs the right to read."""
    return answer(identify_again())


@people.get("/live/stream")
def live() -> Response:
    """For the admin's pages; the browser's session says who it is."""
    again = sessions.current_again()
    return answer(lambda: None if (user := again()) is None else identity_of(user))


def end_streams() -> None:
    """Told to stop, the process lets its watchers go at once. Takes no lock: a signal's handler calls it."""
    for stream_hub in hub.made():
        stream_hub.cut_all()


def register(app: Flask) -> None:
    app.register_blueprint(programs)
    app.register_blueprint(people)


def answer(identify_again: Callable[[], Identity | None]) -> Response:
    """The stream that the request asks for: ``group``, ``kinds``, ``after`` or the header ``Last-Event-ID``.

    ``identify_again``: who asks by now; the stream ends when that is nobody, or somebody who may not watch the group any more.
    """
    identity = need("read")
    group_id, kinds, after = _group(identity), _kinds(), _after()

    def allowed() -> bool:
        try:
            known = identify_again()
        except Unanswered:
            return False  # it comes back, to be told with status 503
        return known is not None and known.may("read") and known.sees(group_id)

    try:
        watcher = hub().join(group_id, identity.actor, request.remote_addr or "")
        try:
            beginning, known = _beginning(watcher, after)
        except BaseException:
            hub().leave(watcher)
            raise
    except TooManyWatchers as error:
        return _refused(error)
    except (redis.RedisError, OSError) as error:
        raise Unanswered("Valkey", one_line(error)) from error
    client = Client.of(request.environ)
    sending = Sending(watcher, client, kinds, beginning, allowed, known)
    response = Response(sending.chunks(after), mimetype="text/event-stream")
    response.headers["X-Accel-Buffering"] = "no"  # nginx would gather it
    response.call_on_close(lambda: hub().leave(watcher))
    return response


def _beginning(watcher: Watcher, after: str | None) -> tuple[str, stream.Place]:
    """First of all how soon to come back, from where on it is told, and whether something is missing in between; and up to
    where the client knows everything.
    """
    opened = json.dumps({"group": watcher.group_id, "kept": stream.KEPT}, ensure_ascii=False)
    retry = f"retry: {RETRY_MS}\n"
    if after is None:
        return retry + event("stream.opened", opened, watcher.since), (0, 0)
    oldest, newest = stream.ends(watcher.group_id)
    asked = place(after)
    begun = retry + event("stream.opened", opened)
    if asked == (0, 0):  # all there is
        return begun, asked
    missing = json.dumps({"asked": after, "oldest": None if oldest == "0-0" else oldest})
    if asked > place(newest):  # from before the server lost what it had: what comes follows no id that is known
        return begun + event("gap", missing, watcher.since), (0, 0)
    return (begun + event("gap", missing) if asked < place(oldest) else begun), asked


def _refused(error: TooManyWatchers) -> Response:
    status = 429 if error.of_this_one else 503
    whose = "You, or others at your address, have" if error.of_this_one else "The server has"
    detail = f"{whose} {error.limit} streams open already. Close one, or try again later."
    return problem(status, detail, headers={"Retry-After": str(RETRY_AFTER[status])})


def _group(identity: Identity) -> str:
    """The group asked for, else the one that the key speaks for. One that may not be seen is not there."""
    asked = request.args.get("group") or group_of(identity)
    if not identity.sees(asked) or any(True for _ in unstorable(asked)):
        abort(404)
    return asked


def _kinds() -> frozenset[str]:
    kinds = frozenset(filter(None, request.args.get("kinds", "").split(",")))
    unknown = sorted(kinds - set(KINDS))
    if unknown:
        abort(400, f"kinds: there is no kind “{unknown[0][:64]}”; there are {', '.join(KINDS)}.")
    return kinds


def _after() -> str | None:
    """The header comes from a client that was cut off, so it is later than what it once began with."""
    asked = request.headers.get("Last-Event-ID") or request.args.get("after")
    if not asked:
        return None
    try:
        return "{}-{}".format(*place(asked))
    except ValueError:
        abort(400, "after, Last-Event-ID: must be the id of an event, or 0 for all there are.")
