"""The pages of the optional subjects that are on, in the order of the menu."""

from __future__ import annotations

from engine.subjects import is_on
from web.admin.pages import Pages

PAGES: list[Pages] = []
if is_on("growth"):
    from web.admin import appointments, growth

    PAGES += [*growth.BLUEPRINTS, *appointments.BLUEPRINTS]
if is_on("stores"):
    from web.admin import stores

    PAGES += stores.BLUEPRINTS
if is_on("tiers"):
    from web.admin import tiers

    PAGES += tiers.BLUEPRINTS
