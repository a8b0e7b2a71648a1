"""Whether a password is somebody's: it takes as long for nobody as for somebody, and few are looked at at a time."""

from __future__ import annotations

from threading import BoundedSemaphore

from werkzeug.security import check_password_hash

from jiyi.protocol.passwords import MAX_PASSWORD
from models.accounts.users import User

#: Passwords hashed at a time, 32 MB each; and seconds that one more waits for its turn.
HASHING = BoundedSemaphore(2)
HASHING_PATIENCE = 5.0
#: Of no password, made like all others: a name that nobody has takes as long as one that somebody has.
DUMMY_HASH = (
    "scrypt:32768:8:1$h8Yw2mQe0vTzK4aR$"
    "c41751990ba396c221bf8698534f781960b555da6cfd34cf85330893a0baf20a"
    "5fb0a1f01db01ddc68d11f7b541b8cfa5ab398338aae6eacefbdea3b01b14ee9"
)


class HashingBusy(Exception):  # noqa: N818 – its name says what happened
    """Too many passwords are looked at at this moment."""


def is_password_of(user: User | None, password: str) -> bool:
    """Whether somebody who may sign in has this password. Raises :class:`HashingBusy`."""
    if not HASHING.acquire(timeout=HASHING_PATIENCE):
        raise HashingBusy
    try:
        right = check_password_hash(user.password_hash if user else DUMMY_HASH, password[: MAX_PASSWORD + 1])
    finally:
        HASHING.release()
    return right and user is not None and not user.disabled
