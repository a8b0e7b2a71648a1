"""Queues and who reads them: what the broker, Valkey and the workers say, each allowed to be silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jiyi.settings import Settings
from jiyi.text.translatable import Translatable
from models.db.bounded_reads import Reading, Unanswered, attempt, source
from models.operations import canaries, heartbeats
from models.operations import health_checks as checks
from models.operations.canaries import Canary
from models.operations.health_checks import State
from models.operations.heartbeats import Worker
from models.queue import broker_queues
from models.queue.broker_queues import Depths, InFlight


@dataclass(frozen=True, slots=True)
class Broker:
    depths: Depths
    #: Seconds since the message was sent that is next, by queue.
    oldest: dict[str, float | None]
    #: Seconds since each living intake's last word.
    intakes: list[float]


@dataclass(frozen=True, slots=True)
class Signs:
    canaries: dict[str, Canary]
    beat_age: float | None
    workers: list[Worker]


@dataclass(frozen=True, slots=True)
class Liveness:
    broker: Reading[Broker]
    signs: Reading[Signs]

    @property
    def depths(self) -> Reading[Depths]:
        known = self.broker.value
        return Reading(None if known is None else known.depths, self.broker.reason)

    @property
    def workers(self) -> Reading[list[Worker]]:
        known = self.signs.value
        return Reading(None if known is None else known.workers, self.signs.reason)


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue; None is what is not known. ``alive_seconds``: since the last sign of life of who reads it."""

    queue: str
    reads: str | None
    waiting: int | None
    oldest_seconds: float | None
    in_flight: int | None
    alive_seconds: float | None
    waited_seconds: float | None
    outstanding: int | None
    intakes: int | None
    workers: list[Worker] | None
    #: Whether it is read, and since when nothing was heard of whoever reads it.
    state: State
    silent_seconds: float | None


@dataclass(frozen=True)
class QueuesState:
    """All queues, and what is known of all together."""

    queues: list[QueueState]
    in_flight: dict[str, InFlight] | None
    workers: list[Worker] | None
    beat_seconds: float | None


def begin(settings: Settings) -> Callable[[], Liveness]:
    """Ask both now; the answer is fetched by calling what is returned."""
    broker = source("broker").begin(lambda: _broker(settings))
    signs = source("Valkey").begin(_signs)
    return lambda: Liveness(attempt(broker), attempt(signs))


def address_of(settings: Settings) -> str:
    """The broker's, as Redis writes it. Raises :class:`Unanswered` for one that tells nothing about itself."""
    address = broker_queues.redis_address(settings.need("broker_url"))
    if address is None:
        raise Unanswered("broker", "only a Redis-like broker tells its queue depths here")
    return address


def state_of_queues(settings: Settings, found: Liveness) -> QueuesState:
    depths, signs = found.depths.value, found.signs.value
    return QueuesState(
        queues=[_queue(queue, found) for queue in [settings.intake_queue, *broker_queues.task_queues()]],
        in_flight=None if depths is None else {"intake": depths.intake, "tasks": depths.tasks},
        workers=found.workers.value,
        beat_seconds=None if signs is None else signs.beat_age,
    )


def _queue(queue: str, found: Liveness) -> QueueState:
    broker, workers = found.broker.value, found.workers.value
    of_intake = queue not in broker_queues.task_queues()
    canary = found.signs.value.canaries.get(queue) if found.signs.value else None
    intakes = broker.intakes if broker else []
    waiting = None if broker is None else broker.depths.waiting.get(queue)
    oldest = None if broker is None else broker.oldest.get(queue)
    if of_intake:
        read = checks.intake_reader(queue, broker.intakes if broker else None, waiting, oldest)
    else:
        read = checks.reader(queue, workers, canary)
    return QueueState(
        queue=queue,
        reads=Translatable("events, for the intake") if of_intake else None,
        waiting=waiting,
        oldest_seconds=oldest,
        in_flight=None if broker is None or not of_intake else broker.depths.intake.count,
        alive_seconds=min(intakes, default=None) if of_intake else None if canary is None else canary.age,
        waited_seconds=None if canary is None else canary.waited,
        outstanding=None if canary is None else canary.outstanding,
        intakes=len(intakes) if of_intake and broker else None,
        workers=None if of_intake or workers is None else [worker for worker in workers if queue in worker.queues],
        state=read.state,
        silent_seconds=read.silent_seconds,
    )


def _broker(settings: Settings) -> Broker:
    address = address_of(settings)
    names = [settings.intake_queue, *broker_queues.task_queues()]
    try:
        return Broker(
            broker_queues.depths(address, names),
            broker_queues.oldest(address, names),
            canaries.intake_ages(address, settings.intake_queue, settings.intake_redelivery_seconds),
        )
    except ValueError as error:  # redis-py's word for an address that it cannot read
        raise Unanswered("broker", f"JIYI_BROKER_URL cannot be used: {error}") from None


def _signs() -> Signs:
    found = canaries.read_heartbeats(broker_queues.task_queues())
    return Signs({canary.queue: canary for canary in found}, canaries.beat_age(), heartbeats.workers())
