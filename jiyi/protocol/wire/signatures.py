"""API keys, and the signatures that are made with them: of messages and of calls on the broker.

A key is ``jiyi_<id>_<secret>``, made where it is shown. The service knows its id, the SHA-256 of its secret
and a signing key derived from it, from neither of which the secret (256 random bits) follows.

Events are signed as bytes, calls as an HMAC-SHA256 over canonical JSON of task, arguments and time. An API
key gives its rights; the service's own secret all of them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import string
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jiyi.errors import SettingsError
from jiyi.settings import Settings

#: Headers of a signed message.
KEY_HEADER, SIGNATURE_HEADER, GROUP_HEADER = "jiyi-key", "jiyi-signature", "jiyi-group"
#: In place of a key's id: signed by the service itself, for one group.
SERVICE = "service"
SIGNING_LABEL = b"jiyi signed messages 1"

#: Characters; what is shorter can be guessed.
MIN_SECRET_KEY = 32


def sign(signing_key: bytes, body: bytes) -> str:
    return hmac.digest(signing_key, body, "sha256").hex()


def verifies(signing_key: bytes, body: bytes, signature: str) -> bool:
    return hmac.compare_digest(sign(signing_key, body).encode(), signature.encode("ascii", "replace"))


def service_signing_key(secret_key: str, group_id: str) -> bytes:
    """With which the service signs what an operator lets into ``group_id``, and into no other group."""
    return hmac.digest(secret_key.encode(), SIGNING_LABEL + b" " + group_id.encode(), "sha256")


def key_headers(key: KeyText, body: bytes) -> dict[str, str]:
    return {KEY_HEADER: key.key_id, SIGNATURE_HEADER: sign(key.signing_key, body)}


def service_headers(secret_key: str, group_id: str, body: bytes) -> dict[str, str]:
    signature = sign(service_signing_key(secret_key, group_id), body)
    return {KEY_HEADER: SERVICE, GROUP_HEADER: group_id, SIGNATURE_HEADER: signature}


def need_secret_key(settings: Settings) -> str:
    """Raises :class:`SettingsError` unless there is a secret that sessions can be signed with."""
    secret = settings.secret_key.get_secret_value()
    if len(secret) >= MIN_SECRET_KEY:
        return secret
    state = f"has {len(secret)} characters" if secret else "is not set"
    raise SettingsError(
        f"JIYI_SECRET_KEY {state}, and sessions are signed with it: set at least {MIN_SECRET_KEY} random"
        " characters, the same for every process, such as `openssl rand -hex 32` prints (`jiyi up` makes its"
        " own)"
    )


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
    return KeyText(
        "".join(secrets.choice(ALPHABET) for _ in range(ID_CHARS)), secrets.token_urlsafe(SECRET_BYTES)
    )


def parse_key(text: str) -> KeyText | None:
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
    key = parse_key(text)
    if key is None:
        raise SettingsError(
            "JIYI_KEY: not in the form of a key, jiyi_<12 characters>_<43 characters>; see `jiyi keys create`"
        )
    return key


#: Header of a signed call: when it was signed, in epoch seconds by the caller's clock.
AT_HEADER = "jiyi-at"
#: What is signed begins with this, so that no event's signature is a call's. It is no JSON.
CALL_LABEL = b"jiyi signed calls 1\n"


@dataclass(frozen=True, slots=True)
class CallSigner:
    """Signs with one key."""

    key_id: str
    signing_key: bytes = field(repr=False)

    def headers(self, task: str, args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, str]:
        """The headers of a call sent now. ``args`` and ``options`` are JSON, as the task gets them."""
        at = f"{time.time():.3f}"
        signature = call_signature(self.signing_key, task, at, args, options)
        return {KEY_HEADER: self.key_id, AT_HEADER: at, SIGNATURE_HEADER: signature}


def call_signature(
    signing_key: bytes, task: str, at: str, args: Sequence[Any], options: Mapping[str, Any]
) -> str:
    """Of what was signed at that time; the same for every holder of the key, whatever the JSON library."""
    content = json.dumps([task, at, args, options], sort_keys=True, separators=(",", ":"))
    return hmac.digest(signing_key, CALL_LABEL + content.encode("ascii"), "sha256").hex()


def service_call_key(secret_key: str) -> bytes:
    """With which the service signs its own calls, an operator's."""
    return hmac.digest(secret_key.encode(), CALL_LABEL, "sha256")


def signer_of(settings: Settings, key: KeyText | None = None) -> CallSigner | None:
    """Signs as the key, else as the service where its secret is known (``JIYI_SECRET_KEY``), else not."""
    if key is not None:
        return CallSigner(key.key_id, key.signing_key)
    secret_key = settings.secret_key.get_secret_value()
    return CallSigner(SERVICE, service_call_key(secret_key)) if secret_key else None
