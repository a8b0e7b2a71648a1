"""Types of stores that the service keeps, and what it does for each."""

from __future__ import annotations

from collections.abc import Mapping

from models.stores.kinds import blackboard, file, mem0, simple
from models.stores.kinds.kept import Kept

#: Type → what the service does for its stores.
KEPT: Mapping[str, Kept] = {"simple": simple.KEPT, "file": file.KEPT, "blackboard": blackboard.KEPT, "mem0": mem0.KEPT}
