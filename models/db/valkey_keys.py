"""Every key that Jiyi uses in Redis/Valkey: what it holds, who writes it, how long it lives.

- ``jiyi:reply:<request id>``: list, one JSON answer; retrieval worker; ``REPLY_SECONDS``
- ``jiyi:call:<signature>``: a changing call that was accepted; workers; 6 minutes
- ``jiyi:wake:<kind>``: sender of a wake-up; deleted by the worker that claims; ``WAKE_SECONDS``
- ``jiyi:wake:<kind>:at:<slot>``: sender of a wake-up for later; until then, and ``WAKE_SECONDS``
- ``jiyi:access``: sorted set, node id → latest access (epoch seconds); retrieval worker; until flushed
- ``jiyi:access:each``: list, memories accessed together (``models.memory.access``); the same
- ``jiyi:access:flush:<uuid>``, ``…:each``: these, handed over; flush task; until written
- ``jiyi:access:due``: retrieval worker, to queue one flush a second; the flush interval
- ``jiyi:retrievals``: list, JSON: retrievals to be written; retrieval worker; until flushed
- ``jiyi:intakes:<queue>``: set, names of the queue's intakes; intake; –
- ``jiyi:intake:hold:<queue>:<intake>:<0 or 1>``: list, messages in hand; intake; until stored
- ``jiyi:intake:order:<queue>``: sorted set, these lists in the order of their taking; intake; until stored
- ``jiyi:intake:stored:<queue>``: hash, list → how many shards of it are stored; intake; until stored
- ``jiyi:intake:attempts:<digest>``: intakes that began with a message after one had died; intake; 3 days
- ``jiyi:intake:alive:<intake>``: intake; twice ``JIYI_WORK_LEASE_SECONDS``
- ``jiyi:touched:<group>:<agent>``: stream, accesses of five minutes; retrieval workers; an hour
- ``jiyi:indexes:<host>:<pid>``: JSON, what a retrieval worker holds; it; ``REPORT_LIVES``
- ``jiyi:breaker:<purpose>:<vendor>:<model>:pybreaker:*``: a circuit breaker; workers; –
- ``jiyi:breaker:<purpose>:<vendor>:<model>:error``, ``:success``: a provider's last; workers; a week
- ``jiyi:breaker:<purpose>:<vendor>:<model>:hold``: to be left alone; workers; an hour at most
- ``jiyi:llm:<sha256>``: hash, what was learned of a model (``engine.providers.known``); workers; by value
- ``jiyi:llm:<sha256>:claim``: a worker asks the model what it can do; workers; minutes
- ``jiyi:attempts:name:<sha256>``, ``…:address:<address>``: hash, wrong passwords; web; 15 minutes
- ``jiyi:attempts:known:<sha256>``: sorted set, addresses of sign-ins; web; 30 days
- ``LIMITS:LIMITER/…``: requests of one API key, by Flask-Limiter; web; the limit's own span
- ``jiyi:counters``, ``jiyi:meters:total``: hash, numbers since the beginning; everybody; for good
- ``jiyi:meters:<minute>``: hash, numbers of that minute; everybody; 25 hours
- ``jiyi:stream:<group>``: stream, what has changed (``models.queue.stream``); everybody; a day
- ``jiyi:wm:order:<group>``, ``entries``, ``whole``: working memory (``models.tiers.working``); workers
- ``jiyi:wm:stats:<group>``: hash, name → number; workers; for good
- ``jiyi:asked:<group>``: questions to the group's tiers; web, retrieval worker; a minute
- ``jiyi:search:<sha256>``: JSON, what a group's web search found; retrieval worker; 5 minutes
- ``jiyi:searches:<sha256>``: web searches of one session; retrieval worker; a day
- ``jiyi:canary:queue:<queue>``: hash, signs of life; beat, workers; a day
- ``jiyi:canary:beat``: epoch seconds; beat; a day
- ``jiyi:workers``: hash, worker → heartbeat, JSON; Celery workers; for good, what is silent goes
- ``jiyi:workers:wish:<name>``: JSON, signed (``models.operations.worker_actions``); web; 30 days
- ``jiyi:orders``: hash, order to forget → JSON; upkeep worker; 10 minutes at most
- ``jiyi:orders:<order>``: hash, worker → what it dropped; Celery workers; the same
- ``jiyi:probe``: whether anything can be written; web; a minute
- ``_kombu.binding.*``, queue names, ``unacked*``: kombu's own
"""

from __future__ import annotations

import hashlib

from jiyi.protocol.wire.calls import STREAM_KEY

#: Of every key but kombu's and Flask-Limiter's own.
PREFIX = "jiyi:"
ACCESS = "jiyi:access"
ACCESS_EACH = "jiyi:access:each"
ACCESS_DUE = "jiyi:access:due"
ACCESS_FLUSH = "jiyi:access:flush:"
EACH_SUFFIX = ":each"
COUNTERS = "jiyi:counters"
#: A wake-up flag outlives the message it stands for only if that message was lost: so long the kind is not
#: woken again.
WAKE_SECONDS = 10
#: Work of a kind that gets due within so many seconds is woken by one message.
WAKE_SLOT_SECONDS = 2
RETRIEVALS = "jiyi:retrievals"
TOUCHED = "jiyi:touched:"
METERS_TOTAL = "jiyi:meters:total"
METERS_EXAMPLES = "jiyi:meters:examples"
BEAT = "jiyi:canary:beat"
WORKERS = "jiyi:workers"
PROBE = "jiyi:probe"
ORDERS = "jiyi:orders"
WORKING = "jiyi:wm:"
SEARCH = "jiyi:search:"

# Keys by what the list above has in angle brackets.
call = "jiyi:call:{}".format
wake = "jiyi:wake:{}".format
#: The slot: epoch seconds by ``WAKE_SLOT_SECONDS``.
wake_at = "jiyi:wake:{}:at:{}".format
access_flush = f"{ACCESS_FLUSH}{{}}".format
guesses_by_name = "jiyi:attempts:name:{}".format
known_addresses = "jiyi:attempts:known:{}".format
guesses_by_address = "jiyi:attempts:address:{}".format
intakes = "jiyi:intakes:{}".format
#: How many intakes have begun with a message that was delivered again, by its digest.
intake_attempts = "jiyi:intake:attempts:{}".format
intake_alive = "jiyi:intake:alive:{}".format
worker_desired_state = f"{WORKERS}:wish:{{}}".format
order_answers = f"{ORDERS}:{{}}".format
stream = f"{STREAM_KEY}{{}}".format
#: Of a minute since the epoch; ``*``: the pattern of all, ``METERS_TOTAL`` included.
meters = "jiyi:meters:{}".format
canary = "jiyi:canary:queue:{}".format
working_stats = f"{WORKING}stats:{{}}".format
indexes = "jiyi:indexes:{}".format


def intake_holds(queue: str, intake: str) -> tuple[str, str]:
    """Where an intake keeps what it has in hand: one batch being stored, one being taken."""
    return f"jiyi:intake:hold:{queue}:{intake}:0", f"jiyi:intake:hold:{queue}:{intake}:1"


def intake_order(queue: str) -> tuple[str, str]:
    """In which order its intakes took what they have in hand, and how much of each is stored."""
    return f"jiyi:intake:order:{queue}", f"jiyi:intake:stored:{queue}"


def working(group_id: str) -> tuple[str, str, str]:
    """A group's working memory: its order, its entries, and the mark that they are whole."""
    return f"{WORKING}order:{group_id}", f"{WORKING}entries:{group_id}", f"{WORKING}whole:{group_id}"


def web_search(group_id: str, digest: str) -> str:
    return SEARCH + _hidden(group_id, digest)


def web_searches(group_id: str, session_id: str) -> str:
    return f"jiyi:searches:{_hidden(group_id, session_id)}"


def _hidden(group_id: str, name: str) -> str:
    """Of two names, which may be a person's; the length keeps two different pairs from being one."""
    return hashlib.sha256(f"{len(group_id)}:{group_id}:{name}".encode()).hexdigest()


def touched(group_id: str, agent_id: str) -> str:
    # Names may hold colons: lengths keep two different pairs from sharing a key.
    return f"{TOUCHED}{len(group_id)}:{group_id}:{agent_id}"


def touched_agent(key: str) -> tuple[str, str]:
    """(group_id, agent_id) of a key that :func:`touched` made."""
    length, _, names = key.removeprefix(TOUCHED).partition(":")
    return names[: int(length)], names[int(length) + 1 :]
