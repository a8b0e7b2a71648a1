"""Signed calls: who asks a worker over the broker signs the task's name, its arguments and the time.

The signature is an HMAC-SHA256 over canonical JSON, made again by the worker from what arrived: both take some microseconds.
With an API key the caller has that key's rights; the service's own secret has all of them.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jiyi.protocol.wire.api_keys import KeyText
from jiyi.protocol.wire.signatures import KEY_HEADER, SERVICE, SIGNATURE_HEADER
from jiyi.settings import Settings

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
        """The headers of a call that is sent now. ``args`` and ``options`` are JSON, as the task gets them."""
        at = f"{time.time():.3f}"
        signature = call_signature(self.signing_key, task, at, args, options)
        return {KEY_HEADER: self.key_id, AT_HEADER: at, SIGNATURE_HEADER: signature}


def call_signature(signing_key: bytes, task: str, at: str, args: Sequence[Any], options: Mapping[str, Any]) -> str:
    """Of what was signed at that time; the same for everybody who has the key, whatever JSON library carried it."""
    content = json.dumps([task, at, args, options], sort_keys=True, separators=(",", ":"))
    return hmac.digest(signing_key, CALL_LABEL + content.encode("ascii"), "sha256").hex()


def service_call_key(secret_key: str) -> bytes:
    """With which the service signs its own calls, an operator's."""
    return hmac.digest(secret_key.encode(), CALL_LABEL, "sha256")


def signer_of(settings: Settings, key: KeyText | None = None) -> CallSigner | None:
    """Signs as the key, else as the service where its secret is known (``JIYI_SECRET_KEY``, or this home's); else nobody."""
    if key is not None:
        return CallSigner(key.key_id, key.signing_key)
    secret_key = settings.secret_key.get_secret_value()
    return CallSigner(SERVICE, service_call_key(secret_key)) if secret_key else None
