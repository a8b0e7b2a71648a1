"""Types of stores that the service keeps, and what it does for each."""

from __future__ import annotations

from collections.abc import Mapping

from models.stores.kept import Kept

#: Type → what the service does for its stores.
KEPT: Mapping[str, Kept] = {}
