"""Events in, durably, and what the API says where they cannot be stored."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import TimeoutError as Late

import psycopg

from engine import subjects
from jiyi.protocol.events import Event
from jiyi.protocol.rest import FieldProblem
from models.db.bounded_reads import FAILURES, PATIENCE, Unanswered, one_line
from models.memory import inbox
from models.memory.ingest import Kept, group_commit
from models.queue.dead_letters import VECTOR_FIELD, MisfitVectors, ReusedIds, reason_of
from web.api.problems import Refused

#: The database is away, gives no answer, or refuses a value, which is told apart when the request is answered.
AWAY: tuple[type[Exception], ...] = (psycopg.OperationalError, psycopg.DataError, *FAILURES)


def keep(events: Sequence[Event]) -> Kept:
    """Return when they are in the database.

    Raises:
        Refused: an id is taken, vectors do not fit, or an event belongs to a subject that is off.
        Unanswered: the database refuses a value, is away, or slow; in the last case whether they were stored is not known.
    """
    for event in events:
        if (subject := subjects.of_event(event.type)) is not None:
            raise Refused(422, str(subject.refusal), code=subject.refusal.code)
    try:
        return group_commit().store(events, PATIENCE)
    except Late:
        raise Unanswered("database", f"no answer within {PATIENCE:g} s") from None
    except ReusedIds as error:
        problems = [FieldProblem(field="event_id", message=reason_of(event)) for event in error.events]
        raise Refused(409, str(error), problems, code=error.code) from None
    except MisfitVectors as error:
        places = {event.key: place for place, event in enumerate(events)}
        problems = [FieldProblem(field=_field(places[misfit.event.key], len(events)), message=misfit.reason) for misfit in error.misfits]
        raise Refused(422, str(error), problems, code=error.code) from None
    except inbox.CollisionError:
        raise Refused(409, "event_id: taken by something else; choose another.") from None
    except AWAY as error:
        raise Unanswered("database", one_line(error)) from error


def _field(place: int, count: int) -> str:
    """Where a request with so many events has the vector of one of them."""
    return VECTOR_FIELD if count == 1 else f"events.{place}.{VECTOR_FIELD}"
