"""The modules whose import registers the API's operations: of optional subjects those that are on."""

from __future__ import annotations

from engine.subjects import is_on
from web.api import memory, service, tools

MODULES = [memory, service, tools]
if is_on("tiers"):
    from web.api import tiers

    MODULES += [tiers]
if is_on("items"):
    from web.api import items

    MODULES += [items]
