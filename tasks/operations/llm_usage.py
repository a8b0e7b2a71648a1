"""Accounts of the LLM: every worker counts what it asks, and ``jiyi llms`` asks for the sums."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from engine.providers import breakers, llms
from engine.providers.llm_usage import on_usage
from engine.providers.spec import has_key
from jiyi.errors import SettingsError
from jiyi.protocol.operations import LLMsRequest
from jiyi.protocol.presets import PRESETS
from jiyi.protocol.providers import ActiveLLM, LLMReport, LLMVendor
from jiyi.settings import get_settings
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.operations import llm_usage
from models.operations.actions import show_llms
from tasks.framework.rpc import implements

on_usage(llm_usage.record)


@implements(show_llms)
def llm_report(actor: Actor, request: LLMsRequest) -> LLMReport:
    """Safe to repeat because it only reads."""
    first_day = (datetime.now(UTC) - timedelta(days=request.days - 1)).date()
    with unit_of_work() as connection:
        usage = llm_usage.since(connection, actor.group_id, first_day)
    active = _active()
    vendors = [
        LLMVendor(
            vendor=name,
            model=preset.chat_model,
            needs_key=preset.needs_key,
            key=has_key(preset) or (active.vendor == name and active.problem is None and preset.needs_key),
        )
        for name, preset in PRESETS.items()
    ]
    return LLMReport(active=active, vendors=vendors, days=request.days, usage=usage)


def _active() -> ActiveLLM:
    settings = get_settings()
    if settings.llm == llms.RULES:
        return ActiveLLM(vendor=llms.RULES, model=llms.llm().model, breaker=None, problem=None)
    try:
        endpoint = llms.endpoint(settings)
    except SettingsError as error:
        return ActiveLLM(vendor=None, model=settings.llm, breaker=None, problem=str(error))
    missing = endpoint.preset.needs_key and endpoint.api_key is None
    return ActiveLLM(
        vendor=endpoint.spec.vendor,
        model=str(endpoint.spec),
        breaker=breakers.read_state(endpoint.breaker),
        problem=f"no key: set {endpoint.key_names}" if missing else None,
    )
