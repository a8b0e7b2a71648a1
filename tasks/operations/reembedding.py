"""Moving to another embedding model step by step; ``jiyi reembed`` may stop anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import Connection

from engine.providers.embedder_specs import (
    LOCAL,
    SETTING,
    check_size,
    complete,
    configured_spec,
    conversion,
    model_of,
    sized,
)
from engine.providers.embedders import embedder_of
from engine.providers.health import vendors
from engine.providers.spec import Spec, parse
from jiyi.errors import InvalidRequest, SettingsError
from jiyi.protocol.base import Request
from jiyi.protocol.providers import EmbedderReport, EmbeddingModel, MoveState, Phase, ReembeddingStep
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from models.accounts import audit
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.memory.nodes import TextToEmbed
from models.memory.work import ENLARGE
from models.operations import embedding_models
from models.operations.actions import show_embedders, step_reembedding
from models.operations.embedding_models import ActiveModel, Reembedding
from models.queue import pending_work
from models.queue.wakeups import wake
from models.retrieval import enlargement
from tasks.framework.rpc import implements

#: Memories that may be embedded while the switch holds up all who store vectors: a second or two.
LAST_MEMORIES = 64
#: Embedded before a move begins, to see that it can.
PROBE = "hello 你好"


@implements(step_reembedding)
def step(actor: Actor, request: ReembeddingStep) -> MoveState:
    """Do the next step. The beginning, the switch and a cancellation are recorded in the audit log.

    Safe to repeat because each step looks at what there is: memories that have the new model's vector are
    passed by, and the switch happens once.
    """
    with whole_service():  # a deployment moves with all its groups
        return _cancel(actor) if request.cancel else _step(actor, request)


def _step(actor: Actor, request: ReembeddingStep) -> MoveState:
    with unit_of_work() as connection:
        used = embedding_models.active_model(connection)
        begun, last = embedding_models.filling(connection), embedding_models.finished(connection)
    if used is None:
        raise InvalidRequest(
            ["to: no memory is embedded yet, so there is nothing to move: set JIYI_EMBEDDER"]
        )
    spec = _target(request, begun)
    model = model_of(spec)
    if begun is not None and begun.model != model:
        hint = f"go on with `jiyi reembed --to {begun.spec}`, or end it with `jiyi reembed --cancel`"
        raise InvalidRequest([f"to: a move to {begun.model} is under way: {hint}"])
    if begun is not None:
        return _fill(actor, begun, request)
    if model == used.model:
        return _finish(_as_move(used, last, everything=request.everything), request)
    with unit_of_work() as connection:
        unfolded = embedding_models.unfolded(connection, used.model)
    if unfolded and last is not None:  # the move before this one was left at its end
        return _fold(last, request, unfolded)
    return _begin(actor, spec, used, request)


def _target(request: ReembeddingStep, begun: Reembedding | None) -> Spec:
    settings = get_settings()
    if request.to is not None:
        try:
            return complete(request.to, settings)
        except SettingsError as error:  # what was asked for is wrong, not the setting
            raise InvalidRequest([f"to: {str(error).removeprefix(f'{SETTING}: ')}"]) from None
    return configured_spec(settings) if begun is None else complete(begun.spec, settings)


def _begin(actor: Actor, spec: Spec, used: ActiveModel, request: ReembeddingStep) -> MoveState:
    model = model_of(spec)
    vectors = embedder_of(str(spec)).passages([PROBE])
    with unit_of_work() as connection:
        embedding_models.begin(connection, model, str(spec), used.model, everything=request.everything)
        begun = embedding_models.filling(connection)
        assert begun is not None
        check_size(model, begun.dimensions, vectors.shape[1])  # it may have been in use before
        embedding_models.set_size(connection, model, vectors.shape[1])
        _record(connection, actor, model, "begun", replaces=used.model, everything=request.everything)
    return _fill(actor, begun, request)


def _fill(actor: Actor, begun: Reembedding, request: ReembeddingStep) -> MoveState:
    with unit_of_work() as connection:
        items = embedding_models.to_embed(
            connection, begun, request.batch, begun.position or embedding_models.FIRST
        )
    # the round ends here; more may be coming in all the time
    if len(items) < min(request.batch, LAST_MEMORIES):
        return switch_over(actor, begun)
    _embed(begun, items)
    return _filling(begun, request, len(items))


def _embed(begun: Reembedding, items: list[TextToEmbed]) -> None:
    new = _vectors(begun, [item for item in items if item.reuse is None])
    copies = [item for item in items if item.reuse is not None]
    with unit_of_work() as connection:
        if not embedding_models.is_wanted(connection, begun):
            raise _cancelled(begun)
        embedding_models.put(connection, begun, new, copies)
        embedding_models.set_position(connection, begun, items[-1].node_id)


def _vectors(begun: Reembedding, items: list[TextToEmbed]) -> list[tuple[TextToEmbed, Float32]]:
    """Each node's vector by the new model: converted if possible, equal texts embedded once."""
    vectors = _converted(begun, items)
    texts = {item.key_hash: item.embedding_key for item in items if item.key_hash not in vectors}
    if texts:
        new_vectors = sized(embedder_of(begun.spec), begun.dimensions).passages(list(texts.values()))
        vectors |= dict(zip(texts, new_vectors, strict=True))
    return [(item, vectors[item.key_hash]) for item in items]


def _converted(begun: Reembedding, items: list[TextToEmbed]) -> dict[bytes, Float32]:
    """By the hash of their text, vectors of the new model that are made from the stored ones."""
    convert = conversion(begun.replaces, begun.model)
    if convert is None or not items:
        return {}
    with unit_of_work() as connection:
        old_vectors = embedding_models.stored(connection, begun.replaces, [item.node_id for item in items])
    hashes = [item.key_hash for item in items if item.node_id in old_vectors]
    if not hashes:
        return {}
    vectors = convert(np.stack([old_vectors[item.node_id] for item in items if item.node_id in old_vectors]))
    return dict(zip(hashes, vectors, strict=True))


def _filling(begun: Reembedding, request: ReembeddingStep, count: int) -> MoveState:
    remaining = None
    if request.count:
        with unit_of_work() as connection:
            remaining = embedding_models.left(connection, begun)
    return _state("filling", begun, done=count, left=remaining)


def switch_over(actor: Actor, begun: Reembedding) -> MoveState:
    """At the end of a round: embed what came in meanwhile, and make the new model active."""
    with unit_of_work() as connection:
        embedding_models.hold_move(connection)
        current = embedding_models.filling(connection)
        if current is None:  # somebody else has just done it
            return _state("filling", begun)
        if current.model != begun.model:
            raise _cancelled(begun)
        items = embedding_models.to_embed(connection, begun, LAST_MEMORIES + 1)
        if len(items) > LAST_MEMORIES:
            embedding_models.set_position(connection, begun, None)  # another round
            return _state("filling", begun)
        embedding_models.put(connection, begun, _vectors(begun, items), [])
        kinds = embedding_models.switch(connection, begun)
        _record(connection, actor, begun.model, "switched", replaces=begun.replaces)
    wake(*kinds)
    return _state("waiting", begun, done=len(items))


def _as_move(used: ActiveModel, last: Reembedding | None, *, everything: bool) -> Reembedding:
    """The move that made the active model so, or, where it always was, one from nothing."""
    if last is None:
        return Reembedding(used.model, used.spec, None, used.model, everything, None, used.since)
    return replace(last, everything=everything or last.everything, active_since=used.since)


def _finish(last: Reembedding, request: ReembeddingStep) -> MoveState:
    """After the switch: fold, then embed memories that came in with the old model's vector."""
    with unit_of_work() as connection:
        unfolded = embedding_models.unfolded(connection, last.model)
    if unfolded:
        return _fold(last, request, unfolded)
    with unit_of_work() as connection:
        items = embedding_models.to_embed(connection, last, request.batch)
        if not items:
            # the new vectors need their index
            pending_work.enqueue(connection, ENLARGE, enlargement.all_large(connection))
    if not items:
        return _state("done", last)
    _embed(last, items)
    return _filling(last, request, len(items))


def _fold(last: Reembedding, request: ReembeddingStep, unfolded: int) -> MoveState:
    """Put a batch of vectors in their places, once nobody waits for an answer by the old model."""
    with unit_of_work() as connection:
        wait = get_settings().request_timeout - embedding_models.seconds_since_switch(connection)
        if wait > 0:
            return _state("waiting", last, left=unfolded, wait=wait)
        count = embedding_models.fold(connection, last.model, request.batch)
    return _state("folding", last, done=count, left=unfolded - count)


def _state(phase: Phase, move: Reembedding, **figures: Any) -> MoveState:
    return MoveState(phase=phase, model=move.model, replaces=move.replaces, **figures)


def _cancelled(begun: Reembedding) -> InvalidRequest:
    return InvalidRequest([f"to: the move to {begun.model} was cancelled meanwhile"])


def _cancel(actor: Actor) -> MoveState:
    with unit_of_work() as connection:
        model = embedding_models.cancel(connection)
        if model is None:
            raise InvalidRequest(["cancel: there is no move to cancel"])
        _record(connection, actor, model, "cancelled")
    return MoveState(phase="cancelled", model=model)


def _record(connection: Connection, actor: Actor, model: str, change: str, **details: Any) -> None:
    who: dict[str, Any] = {"group_id": None, "actor": actor.name, "action": step_reembedding.name}
    who |= {"target": model, "change": change}
    audit.record(connection, **who, **details)


@implements(show_embedders)
def embedder_report(_actor: Actor, _request: Request) -> EmbedderReport:
    """Safe to repeat because it only reads."""
    settings = get_settings()
    configured = configured_spec(settings)
    with whole_service(), unit_of_work() as connection:  # counts only
        used = embedding_models.active_model(connection)
        begun = embedding_models.filling(connection)
        models = embedding_models.all_models(connection)
        remaining = None if begun is None else embedding_models.left(connection, begun)
    active = configured if used is None else parse(used.spec, SETTING, LOCAL)
    others = [] if begun is None else [parse(begun.spec, SETTING, LOCAL)]
    return EmbedderReport(
        active=None if used is None else EmbeddingModel(model=used.model, spec=used.spec, since=used.since),
        setting=EmbeddingModel(model=model_of(configured), spec=str(configured)),
        move=None if begun is None else EmbeddingModel(model=begun.model, spec=begun.spec, left=remaining),
        notes=_notes(str(configured), model_of(configured), None if used is None else used.model, begun),
        vendors=vendors(settings, active, configured, *others),
        models=models,
    )


def _notes(
    spec: str, configured: str, used: str | None, begun: embedding_models.Reembedding | None
) -> list[str]:
    notes = []
    if used is None:
        notes.append(f"no memory is embedded yet: the first one will be by {configured} ({SETTING})")
    elif used != configured:
        notes.append(
            f"{SETTING} names {spec}, but the memories are embedded with {used}, which stays in use: `jiyi"
            f" reembed` moves them to {spec}"
        )
    if begun is not None:
        notes.append(f"a move to {begun.model} has begun: `jiyi reembed --to {begun.spec}` goes on with it")
    return notes
