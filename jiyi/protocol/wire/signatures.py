"""Signatures of messages on the broker, with an API key's signing key or with the service's own secret."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from jiyi.errors import SettingsError
from jiyi.settings import Settings

if TYPE_CHECKING:
    from jiyi.protocol.wire.api_keys import KeyText

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
        f"JIYI_SECRET_KEY {state}, and sessions are signed with it: set at least {MIN_SECRET_KEY} random characters, the "
        "same for every process, such as `openssl rand -hex 32` prints (`jiyi up` makes its own)"
    )
