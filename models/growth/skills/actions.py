"""What can be done with skills: read, confirm, decline, enable, disable, archive, delete."""

from __future__ import annotations

from models.growth.artifacts import deciding
from models.growth.artifacts.lifecycle import decision, getting, listing, reasoned_decision

list_skills = listing("skill_list", "skill")
get = getting("skill_get", "skill")
accept = reasoned_decision("skill_accept", "skill", deciding.ACCEPT)
decline = reasoned_decision("skill_decline", "skill", deciding.DECLINE)
enable = decision("skill_enable", "skill", deciding.ENABLE)
disable = decision("skill_disable", "skill", deciding.DISABLE)
archive = reasoned_decision("skill_archive", "skill", deciding.ARCHIVE)
delete = decision("skill_delete", "skill", deciding.DELETE)
