"""What can be done with skills: read, confirm, decline, enable, disable, archive, delete."""

from __future__ import annotations

from models.growth.artifacts import deciding
from models.growth.artifacts.lifecycle import decision, getting, listing, reasoned_decision

list_skills = listing("skills.list", "skill")
get = getting("skills.get", "skill")
accept = reasoned_decision("skills.accept", "skill", deciding.ACCEPT)
decline = reasoned_decision("skills.decline", "skill", deciding.DECLINE)
enable = decision("skills.enable", "skill", deciding.ENABLE)
disable = decision("skills.disable", "skill", deciding.DISABLE)
archive = reasoned_decision("skills.archive", "skill", deciding.ARCHIVE)
delete = decision("skills.delete", "skill", deciding.DELETE)
