"""What can be done with pending work and with dead letters: retry, list, replay, discard."""

from __future__ import annotations

from jiyi.errors import NotFound
from jiyi.protocol.operations import DeadLetter, DeadLetterPage, LetterRequest, LettersRequest, ResolveBody, Resolved, Retried, RetryWork
from models.db.actions import Context, action
from models.memory.inbox import announce
from models.queue import dead_letters, news, pending_work
from models.queue.dead_letters import INTAKE
from models.queue.replay import replay_events

STATES = {"replay": "replayed", "discard": "discarded"}


@action("pending_work.retry")
def retry_work(context: Context, request: RetryWork) -> Retried:
    """Make pending work due now.

    That of the subjects named, or up to 10,000 of the kind; each has all its attempts again. Safe to repeat because work is
    done once, however often it is due.
    """
    group_id = None if request.all_groups and context.actor.operator else context.group_id
    count = pending_work.retry(context.connection, request.kind, group_id, request.subject_ids)
    if count:
        context.audit(request.kind, group_id=group_id, count=count)
        context.wake(request.kind)
    return Retried(retried=count)


@action("dead_letters.list")
def list_letters(context: Context, request: LettersRequest) -> DeadLetterPage:
    """List what could not be done.

    Refused events and failed work of the key's group, newest first, page by page, each with the reason.
    """
    rows = dead_letters.letters(context.connection, context.group_id, request)
    return DeadLetterPage(rows=rows, next=rows[-1].letter_id if len(rows) == request.limit else None)


@action("dead_letters.get")
def get_letter(context: Context, request: LetterRequest) -> DeadLetter:
    """Get one dead letter.

    The refused event or the failed work, with the reason and, where there is one, the traceback.
    """
    found = dead_letters.find(context.connection, context.group_id, request.letter_id)
    if found is None:
        raise NotFound(f"There is no dead letter {request.letter_id} in the group {context.group_id!r}.")
    return found


@action("dead_letters.resolve")
def resolve_letters(context: Context, request: ResolveBody) -> Resolved:
    """Replay or discard dead letters.

    Those named, or up to 1,000 open ones of a kind. Replayed work is owed anew; replayed events are stored as if they
    came now, and those that are still wrong come back as new letters. There is no way back from discarding.
    """
    connection, group_id, state = context.connection, context.group_id, STATES[request.action]
    closed = dead_letters.close(connection, group_id, request.letter_ids, request.kind, state)
    if not closed:
        if request.letter_ids:
            raise NotFound("letter_ids: none of these is an open dead letter of this group")
        return Resolved(resolved=0)
    refused: list[str | None] = []
    if request.action == "replay":
        work = [one for one in closed if one.kind != INTAKE]
        dead_letters.owe_again(connection, work)
        stored = replay_events(connection, group_id, [one for one in closed if one.kind == INTAKE])
        refused = stored.refused
        context.wake(*{one.kind for one in work}, *stored.owed)
        context.after_commit(lambda: announce(stored))
    letters = sorted(one.letter_id for one in closed)
    context.audit("dead_letters", resolution=state, kind=request.kind, count=len(closed), letters=letters, refused_again=len(refused))
    context.after_commit(lambda: news.resolved(group_id, len(closed), state))
    return Resolved(resolved=len(closed), refused_again=len(refused))
