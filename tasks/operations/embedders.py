"""Which embedders there are, for ``jiyi embedders``."""

from __future__ import annotations

from engine.providers.embedder_specs import LOCAL, SETTING, chosen, model_of
from engine.providers.health import vendors
from engine.providers.spec import parse
from jiyi.protocol.operations import EmbeddersRequest
from jiyi.protocol.providers import EmbedderReport, ModelInUse, ModelOfSetting, ReembeddingUnderWay
from jiyi.settings import get_settings
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.operations import embedding_models, reembedding
from models.operations.actions import show_embedders
from tasks.framework.rpc import implements


@implements(show_embedders)
def embedder_report(_actor: Actor, _request: EmbeddersRequest) -> EmbedderReport:
    """Safe to repeat because it only reads."""
    settings = get_settings()
    named = chosen(settings)
    with whole_service(), unit_of_work() as connection:  # counts only
        used = embedding_models.active_model(connection)
        begun = reembedding.filling(connection)
        models = embedding_models.all_models(connection)
        left = None if begun is None else reembedding.left(connection, begun)
    active = named if used is None else parse(used.spec, SETTING, LOCAL)
    others = [] if begun is None else [parse(begun.spec, SETTING, LOCAL)]
    return EmbedderReport(
        active=None if used is None else ModelInUse(model=used.model, spec=used.spec, since=used.since),
        setting=ModelOfSetting(model=model_of(named), spec=str(named)),
        move=None if begun is None else ReembeddingUnderWay(model=begun.model, spec=begun.spec, left=left),
        notes=_notes(str(named), model_of(named), None if used is None else used.model, begun),
        vendors=vendors(settings, active, named, *others),
        models=models,
    )


def _notes(spec: str, named: str, used: str | None, begun: reembedding.Reembedding | None) -> list[str]:
    notes = []
    if used is None:
        notes.append(f"no memory is embedded yet: the first one will be by {named} ({SETTING})")
    elif used != named:
        notes.append(
            f"{SETTING} names {spec}, but the memories are embedded with {used}, which stays in use: `jiyi reembed` moves them to {spec}"
        )
    if begun is not None:
        notes.append(f"a move to {begun.model} has begun: `jiyi reembed --to {begun.spec}` goes on with it")
    return notes
