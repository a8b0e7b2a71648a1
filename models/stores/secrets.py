"""Secrets of stores: kept apart from their configuration, encrypted with a key that follows from ``JIYI_SECRET_KEY``.

They are neither shown nor logged. Who has the database alone cannot read them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.base import JsonObject
from jiyi.protocol.wire.signatures import need_secret_key
from jiyi.settings import get_settings

#: Fields of a configuration that hold secrets, wherever they stand.
SECRET_FIELDS = frozenset({"api_key"})
#: What is shown in their place.
HIDDEN = "••••"
_LABEL = b"jiyi secrets of stores 1"


def part(config: Mapping[str, Any]) -> tuple[JsonObject, JsonObject]:
    """A configuration as declared in two: with secrets hidden, and the secrets alone by their path."""
    shown: dict[str, Any] = {}
    secret: dict[str, Any] = {}
    for name, value in config.items():
        if name in SECRET_FIELDS and value:
            shown[name], secret[name] = HIDDEN, str(value)
        elif isinstance(value, Mapping):
            shown[name], inner = part(value)
            if inner:
                secret[name] = inner
        else:
            shown[name] = value
    return shown, secret


def joined(shown: Mapping[str, Any], secret: Mapping[str, Any]) -> JsonObject:
    """The configuration as it was declared."""
    return {
        name: joined(value, secret.get(name, {})) if isinstance(value, Mapping) else secret.get(name, value)
        for name, value in shown.items()
    }


def sealed(group_id: str, secret: Mapping[str, Any]) -> bytes | None:
    """Secrets as they are stored; None if there are none. Raises :class:`jiyi.errors.SettingsError` without a secret key."""
    return _cipher(group_id).encrypt(json.dumps(secret).encode()) if secret else None


def opened(group_id: str, stored: bytes | None) -> JsonObject:
    """Secrets as they were declared.

    Raises:
        EmbeddingUnavailable: they were encrypted with another ``JIYI_SECRET_KEY``.
    """
    if stored is None:
        return {}
    try:
        found: dict[str, Any] = json.loads(_cipher(group_id).decrypt(bytes(stored)))
    except InvalidToken:
        raise EmbeddingUnavailable("the secrets of a store were kept with another JIYI_SECRET_KEY: apply its graph again") from None
    return found


def _cipher(group_id: str) -> Fernet:
    key = HKDF(hashes.SHA256(), 32, None, _LABEL + b" " + group_id.encode()).derive(need_secret_key(get_settings()).encode())
    return Fernet(base64.urlsafe_b64encode(key))
