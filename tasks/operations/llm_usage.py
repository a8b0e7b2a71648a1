"""Accounts of the LLM: every worker counts what it asks, and ``jiyi llms`` asks for the sums."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from jiyi.errors import SettingsError
from jiyi.protocol.queries import LLMsQuery
from jiyi.providers import breakers, llms
from jiyi.providers.llms.usage import on_usage
from jiyi.providers.presets import PRESETS
from jiyi.providers.spec import has_key
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.operations import llm_usage
from tasks.framework.inspection import inspects

on_usage(llm_usage.record)


@inspects("llms", LLMsQuery)
def asked_llms(query: LLMsQuery) -> dict[str, Any]:
    """The LLM in use with the state of its breaker, the vendors there are, and what the group has used."""
    first_day = (datetime.now(UTC) - timedelta(days=query.days - 1)).date()
    with unit_of_work() as connection:
        rows = llm_usage.since(connection, query.group_id, first_day)
    active = _active()
    vendors = [
        {
            "vendor": name,
            "model": preset.chat_model,
            "needs_key": preset.needs_key,
            "key": has_key(preset) or (active["vendor"] == name and active["problem"] is None and preset.needs_key),
        }
        for name, preset in PRESETS.items()
    ]
    return {"active": active, "vendors": vendors, "days": query.days, "usage": rows}


def _active() -> dict[str, Any]:
    settings = get_settings()
    if settings.llm == llms.RULES:
        return {"vendor": llms.RULES, "model": llms.llm().model, "breaker": None, "problem": None}
    try:
        endpoint = llms.endpoint(settings)
    except SettingsError as error:
        return {"vendor": None, "model": settings.llm, "breaker": None, "problem": str(error)}
    missing = endpoint.preset.needs_key and endpoint.api_key is None
    return {
        "vendor": endpoint.spec.vendor,
        "model": str(endpoint.spec),
        "breaker": breakers.read_state(endpoint.breaker),
        "problem": f"no key: set {endpoint.key_names}" if missing else None,
    }
