"""Filling the database with refused messages."""

from __future__ import annotations

from jiyi.protocol import limits
from jiyi.protocol.events import CONTENT_TYPE
from jiyi.settings import Settings
from workers.intake.opening import KEPT_OF_TOO_LARGE, Signatures, open_messages
from workers.intake.sources import Taken


def test_of_a_message_that_is_too_large_only_the_beginning_is_kept() -> None:
    message = Taken(b'{"events": [' + b"x" * limits.MAX_MESSAGE_BYTES, CONTENT_TYPE)
    (rejected,) = open_messages([message], Signatures(Settings())).rejected
    assert len(rejected.body) == KEPT_OF_TOO_LARGE
    assert "larger than 16,777,216" in rejected.reason
    assert f"only its first {KEPT_OF_TOO_LARGE:,} bytes are kept" in rejected.reason
