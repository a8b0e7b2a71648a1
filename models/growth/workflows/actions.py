"""What can be done with workflows: read, confirm, decline, enable, disable, archive, delete."""

from __future__ import annotations

from models.growth.artifacts import deciding
from models.growth.artifacts.lifecycle import decision, getting, listing, reasoned_decision

list_workflows = listing("workflows.list", "pipeline")
get = getting("workflows.get", "pipeline")
accept = reasoned_decision("workflows.accept", "pipeline", deciding.ACCEPT)
decline = reasoned_decision("workflows.decline", "pipeline", deciding.DECLINE)
enable = decision("workflows.enable", "pipeline", deciding.ENABLE)
disable = decision("workflows.disable", "pipeline", deciding.DISABLE)
archive = reasoned_decision("workflows.archive", "pipeline", deciding.ARCHIVE)
delete = decision("workflows.delete", "pipeline", deciding.DELETE)
