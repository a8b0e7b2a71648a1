"""The web's one way to the workers."""

from __future__ import annotations

from jiyi.client.caller import Caller
from jiyi.once import once
from jiyi.settings import get_settings


@once
def caller() -> Caller:
    """This process's connections to the workers; made on first use, so always after a fork."""
    return Caller(get_settings())
