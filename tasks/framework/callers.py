"""Who calls over the broker, and whether they may: the same rights as over REST.

A call is signed with an API key, which must be alive, have the action's scope and be of the group that is asked for; or with
the service's secret, which may do everything. Unsigned calls are for deployments whose broker only friends reach
(``JIYI_ALLOW_UNSIGNED_CALLS``), and never for operators' actions.
"""

from __future__ import annotations

import hmac
import time
from datetime import UTC, datetime
from typing import Any

from jiyi.errors import NotAllowed
from jiyi.once import once
from jiyi.protocol.wire.calls import NOBODY
from jiyi.protocol.wire.signatures import AT_HEADER, ID, KEY_HEADER, SERVICE, SIGNATURE_HEADER, KeyScope, call_signature, service_call_key
from jiyi.settings import get_settings
from models.accounts.api_keys import ApiKey, known_keys, noted_uses
from models.accounts.audit import OPERATOR
from models.db import valkey_keys
from models.db.actions import Actor
from models.db.valkey import valkey

#: Seconds for which a signature is good: a call that waited longer in its queue is refused, and …
CALL_SECONDS = 300.0
#: … how far ahead the caller's clock may be.
CLOCK_SECONDS = 60.0
#: For the audit log: a call that nobody signed.
UNSIGNED = "unsigned"

_NOT_SIGNED = (
    "not signed: give the client an API key (JIYI_KEY), or the service's JIYI_SECRET_KEY; "
    "on the service's own machine the command line finds the latter in JIYI_HOME"
)
_WRONG = "not signed by any key of this service, over just this call"


def caller(request: Any, task: str, group_id: str, scope: KeyScope, *, changes: bool) -> Actor:
    """Who sent the Celery request, with the right ``scope`` in the group.

    A call that ``changes`` something is accepted once: it could be sent again by whoever reads the broker.

    Raises:
        NotAllowed: with the reason; nothing is told of what there is.
    """
    key_id, signature, at = (str(request.get(name) or "") for name in (KEY_HEADER, SIGNATURE_HEADER, AT_HEADER))
    options = dict(request.kwargs or {})
    if not key_id and not signature:
        if scope == "operator" or not get_settings().allow_unsigned_calls:
            raise NotAllowed(_NOT_SIGNED)
        return Actor(group_id, NOBODY if options.get("actor") == NOBODY else UNSIGNED)
    key = None if key_id == SERVICE else _key(key_id)
    expected = call_signature(_secret() if key is None else key.signing_key, task, at, request.args or (), options)
    if not hmac.compare_digest(expected.encode(), signature.encode("ascii", "replace")):
        raise NotAllowed(f"{_WRONG}: is JIYI_SECRET_KEY the same in every process?" if key is None else _WRONG)
    _check_time(at)
    if changes and not valkey().set(valkey_keys.call(signature), 1, nx=True, ex=int(CALL_SECONDS + CLOCK_SECONDS)):
        raise NotAllowed("this very call was made before; sign a new one")
    if key is None:
        name = options.get("actor")
        return Actor(group_id, OPERATOR, operator=True) if name is None else Actor(group_id, str(name))
    return _as_key(key, group_id, scope)


def _as_key(key: ApiKey, group_id: str, scope: KeyScope) -> Actor:
    refusal = key.refusal(datetime.now(UTC))
    if refusal:
        raise NotAllowed(f"this key is {refusal}")
    if key.group_id not in (None, group_id):
        raise NotAllowed(f"this key is not of the group {group_id!r}")
    if scope not in key.scopes:
        raise NotAllowed(f"this needs the right {scope!r}, which the key does not have")
    _noted().get(key.key_id)
    return Actor(group_id, key.actor, operator="operator" in key.scopes)


def _check_time(at: str) -> None:
    """The time is part of what was signed, so it is a number unless the signer is a stranger to the protocol."""
    try:
        age = time.time() - float(at)
    except ValueError:
        raise NotAllowed(f"{AT_HEADER}: not a time in epoch seconds") from None
    if not -CLOCK_SECONDS <= age <= CALL_SECONDS:
        raise NotAllowed(f"signed {age:.0f} s ago by the caller's clock; a call is good for {CALL_SECONDS:.0f} s: are the clocks right?")


def _key(key_id: str) -> ApiKey:
    known = _keys().get(key_id) if ID.fullmatch(key_id) else None
    if known is None:
        raise NotAllowed(_WRONG)
    return known


def _secret() -> bytes:
    secret_key = get_settings().secret_key.get_secret_value()
    if not secret_key:
        raise NotAllowed("signed by the service, but this worker does not know JIYI_SECRET_KEY")
    return service_call_key(secret_key)


#: This process's.
_keys, _noted = once(known_keys), once(noted_uses)
