"""The commands on pain points: each is the action of its name (ZC-138, ZC-139)."""

from __future__ import annotations

from models.growth.pains import actions
from web.api.growth.evolution import told
from web.api.registry import expose

expose(actions.list_pains, "POST", **told(actions.list_pains))
expose(actions.get_pain, "POST", **told(actions.get_pain))
expose(actions.report_pain, "POST", **told(actions.report_pain))
expose(actions.resolve_pain, "POST", **told(actions.resolve_pain))
expose(actions.propose_solution, "POST", **told(actions.propose_solution))
