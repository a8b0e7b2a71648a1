"""How soon workers and beat try a broker again that is away: kombu's own pauses of 2, 4, 6 … 30 s outlast most outages by far."""

from __future__ import annotations

from typing import Any

import kombu
from celery.app.amqp import AMQP

#: Seconds: the first pause, what each is longer by, the longest. To try costs next to nothing.
FIRST, STEP, MOST = 0.5, 0.5, 5.0


class Connection(kombu.Connection):  # type: ignore[misc]  # kombu has no types
    """Kombu's, with shorter pauses."""

    def ensure_connection(self, errback: Any = None, max_retries: int | None = None, **options: Any) -> Connection:
        """As kombu's; returns itself, connected."""
        pauses = {"interval_start": FIRST, "interval_step": STEP, "interval_max": MOST}
        super().ensure_connection(errback, max_retries, **{**pauses, **options})
        return self


class SoonAgain(AMQP):  # type: ignore[misc]  # Celery has no types
    """Celery's, with such connections."""

    Connection = Connection
