"""The commands on who an agent is: each is the action of its name (ZC-131…ZC-133)."""

from __future__ import annotations

from models.growth.identity import actions, questions
from web.api.growth.evolution import told
from web.api.registry import expose

expose(questions.list_files, "POST", **told(questions.list_files))
expose(questions.get_file, "POST", **told(questions.get_file))
expose(questions.prompt, "POST", **told(questions.prompt))
expose(questions.history, "POST", **told(questions.history))
expose(questions.compare, "POST", **told(questions.compare))
expose(questions.list_proposals, "POST", **told(questions.list_proposals))
expose(questions.list_snapshots, "POST", **told(questions.list_snapshots))
expose(actions.propose, "POST", **told(actions.propose))
expose(actions.approve, "POST", **told(actions.approve))
expose(actions.reject, "POST", **told(actions.reject))
expose(actions.update_user, "POST", **told(actions.update_user))
expose(actions.snapshot, "POST", **told(actions.snapshot))
expose(actions.rollback, "POST", **told(actions.rollback))
