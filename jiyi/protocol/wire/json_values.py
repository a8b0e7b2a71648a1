"""Names of JSON values that belong to others: users' metadata, bodies on their way, events before they are validated.

Who takes a value out checks its type. What our own code makes and reads has a type of its own instead.
"""

from __future__ import annotations

from collections.abc import Mapping

#: An object that may be changed by who holds it.
JsonObject = dict[str, object]
#: An object that is only read.
JsonMapping = Mapping[str, object]
