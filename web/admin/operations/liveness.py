"""Queues and who reads them: what the broker, Valkey and the workers say, each allowed to be silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flask_babel import gettext as _

from jiyi.settings import Settings
from models.operations import canaries, heartbeats
from models.operations.canaries import Canary
from models.operations.heartbeats import Worker
from models.queue import broker_queues
from models.queue.broker_queues import Depths
from web.admin.pages import Context
from web.sources import Reading, Unanswered, attempt, source


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


def shown(settings: Settings, found: Liveness) -> Context:
    """What pages on queues have in common."""
    depths, signs = found.depths.value, found.signs.value
    return {
        "queues": rows(settings, found),
        "in_flight": depths and {"intake": depths.intake, "tasks": depths.tasks},
        "workers": found.workers.value,
        "beat_seconds": signs and signs.beat_age,
    }


def rows(settings: Settings, found: Liveness) -> list[Context]:
    """By queue; None is what is not known. ``alive_seconds``: since the last sign of life of who reads it."""
    broker, workers = found.broker.value, found.workers.value
    return [_row(queue, broker, found, workers) for queue in [settings.intake_queue, *broker_queues.task_queues()]]


def _row(queue: str, broker: Broker | None, found: Liveness, workers: list[Worker] | None) -> Context:
    of_intake = queue not in broker_queues.task_queues()
    canary = found.signs.value.canaries.get(queue) if found.signs.value else None
    intakes = broker.intakes if broker else []
    alive = min(intakes, default=None) if of_intake else canary and canary.age
    return {
        "queue": queue,
        "reads": _("events, for the intake") if of_intake else None,
        "waiting": None if broker is None else broker.depths.waiting.get(queue),
        "oldest_seconds": None if broker is None else broker.oldest.get(queue),
        "in_flight": None if broker is None or not of_intake else broker.depths.intake.count,
        "alive_seconds": alive,
        "waited_seconds": canary and canary.waited,
        "outstanding": canary.outstanding if canary else None,
        "intakes": len(intakes) if of_intake and broker else None,
        "workers": None if of_intake or workers is None else [worker for worker in workers if queue in worker.queues],
    }


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
