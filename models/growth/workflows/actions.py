"""What can be done with workflows: read, confirm, decline, enable, disable, archive, delete."""

from __future__ import annotations

from models.growth.artifacts import deciding
from models.growth.artifacts.lifecycle import decision, getting, listing, reasoned_decision

list_workflows = listing("workflow_list", "pipeline")
get = getting("workflow_get", "pipeline")
accept = reasoned_decision("workflow_accept", "pipeline", deciding.ACCEPT)
decline = reasoned_decision("workflow_decline", "pipeline", deciding.DECLINE)
enable = decision("workflow_enable", "pipeline", deciding.ENABLE)
disable = decision("workflow_disable", "pipeline", deciding.DISABLE)
archive = reasoned_decision("workflow_archive", "pipeline", deciding.ARCHIVE)
delete = decision("workflow_delete", "pipeline", deciding.DELETE)
