"""The commands on an agent's look at itself, and on what grew: each is the action of its name (ZC-140, ZC-141, ZC-11)."""

from __future__ import annotations

from models.growth.reflections import actions
from models.growth.tracking import actions as tracking
from web.api.growth.evolution import told
from web.api.registry import expose

expose(actions.get_settings_of, "POST", **told(actions.get_settings_of))
expose(actions.configure, "POST", **told(actions.configure))
expose(actions.is_due, "POST", **told(actions.is_due))
expose(actions.run, "POST", **told(actions.run))
expose(actions.list_looks, "POST", **told(actions.list_looks))
expose(actions.show, "POST", **told(actions.show))
expose(tracking.list_tallies, "POST", **told(tracking.list_tallies))
