"""Items are searched, their texts get their vectors, and those past their time are deleted."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection

from engine.providers.embedder_specs import texts_aside
from engine.providers.embedders import query_vector
from jiyi.protocol.base import Rows
from jiyi.protocol.items import Item, SearchItems
from jiyi.settings import get_settings
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.items import actions, storage
from models.items.storage import EMBED_VALUES
from models.operations import embedding_models
from models.operations.embedding_models import TextWithoutVector
from tasks.framework.embedding import embed_now, embed_pending, in_use
from tasks.framework.jobs import Run, job
from tasks.framework.rpc import implements
from tasks.framework.work import Batch, work_task

#: Rounds of embedding that one search waits for: beyond that it finds what has been embedded so far.
MOST_ROUNDS = 8
#: Items deleted by one transaction.
BATCH = 1_000


@work_task(EMBED_VALUES, batch=texts_aside(get_settings()), time_limit=90, gives_way=True)
def embed_values(batch: Batch) -> None:
    """Embed the texts of items that have no vector of the model in use.

    Safe to repeat because a text that has its vector is passed over, and one that has changed meanwhile is
    embedded again.
    """
    embed_pending(batch, storage)


@implements(actions.search_items)
def search(actor: Actor, request: SearchItems) -> Rows[Item]:
    """Safe to repeat because it changes only what is made again: vectors, and the time of items that were
    read.
    """
    if request.query is None:
        with unit_of_work() as connection:
            items = storage.search(connection, actor.group_id, request)
    else:
        with unit_of_work() as connection:
            engine, spec = in_use(connection)
        _complete(actor.group_id, request)
        vector = query_vector(engine, request.query)
        with unit_of_work() as connection:
            embedding_models.hold(connection, engine.model, spec, len(vector))
            items = storage.search(connection, actor.group_id, request, vector, engine.model)
    if request.refresh_ttl:
        actions.refresh(actor.group_id, [item_id for item_id, _ in items])
    return Rows(rows=[item for _, item in items])


def _complete(group_id: str, request: SearchItems) -> None:
    """Make pending vectors of the items to be searched: a caller that stores, then searches, finds them."""

    def missing(connection: Connection, model: str) -> list[TextWithoutVector]:
        return storage.without_vectors(connection, group_id, request, model, get_settings().embed_batch)

    for _ in range(MOST_ROUNDS):
        if not embed_now(storage, missing):
            return


@job("expire_items")
def expire_items(run: Run) -> None:
    """Delete items past their time. They are not found any more before that.

    Safe to repeat because what is deleted is no longer there.
    """
    run.count(expired=run.repeat(partial(storage.delete_expired, now=run.now, limit=BATCH), BATCH))
