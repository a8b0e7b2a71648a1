"""API keys, ``jiyi_<id>_<secret>``: made where they are shown, so that no secret travels.

The service knows a key's id, the SHA-256 of its secret (to recognise it over HTTP) and a signing key derived from the secret (to
check the signatures of messages), from neither of which the secret follows. A secret of 256 random bits needs no slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from dataclasses import dataclass, field
from typing import Literal

from jiyi.errors import SettingsError
from jiyi.protocol.wire.signatures import SIGNING_LABEL

#: ``publish``: events. ``read``: retrieve and look. ``admin``: change and delete within the group.
#: ``operator``: the whole service, every group.
KeyScope = Literal["publish", "read", "admin", "operator"]
SCOPES: tuple[KeyScope, ...] = ("publish", "read", "admin", "operator")

ALPHABET = string.ascii_lowercase + string.digits
ID_CHARS = 12  # 62 random bits: no two keys of a service have the same
SECRET_BYTES = 32  # 43 characters in URL-safe Base64
ID = re.compile(r"[a-z0-9]{12}")
FORM = re.compile(r"jiyi_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class KeyText:
    """The two parts of a key."""

    key_id: str
    secret: str = field(repr=False)

    def __str__(self) -> str:
        return f"jiyi_{self.key_id}_{self.secret}"

    @property
    def secret_hash(self) -> bytes:
        return hashlib.sha256(self.secret.encode()).digest()

    @property
    def signing_key(self) -> bytes:
        return hmac.digest(self.secret.encode(), SIGNING_LABEL, "sha256")


def new_key() -> KeyText:
    """A new key; nobody knows it yet."""
    return KeyText("".join(secrets.choice(ALPHABET) for _ in range(ID_CHARS)), secrets.token_urlsafe(SECRET_BYTES))


def parse(text: str) -> KeyText | None:
    """A key in the form in which it was shown; None if it is none."""
    match = FORM.fullmatch(text)
    return None if match is None else KeyText(match[1], match[2])


def recognises(secret_hash: bytes, key: KeyText) -> bool:
    """Whether it is the key of that hash, in a time that does not depend on where they differ."""
    return hmac.compare_digest(secret_hash, key.secret_hash)


def key_of(text: str) -> KeyText | None:
    """The key in ``JIYI_KEY`` or ``Client(key=…)``, if there is one.

    Raises:
        SettingsError: it has not the form of a key. Its text is not repeated: logs keep what errors say.
    """
    if not text:
        return None
    key = parse(text)
    if key is None:
        raise SettingsError("JIYI_KEY: not in the form of a key, jiyi_<12 characters>_<43 characters>; see `jiyi keys create`")
    return key
