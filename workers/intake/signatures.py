"""Whether a message may come in: signed by whom it says, with a key that may, for its own group."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime

from jiyi.accounts.api_keys import ID
from jiyi.accounts.signatures import SERVICE, service_signing_key, verifies
from jiyi.settings import Settings
from models.accounts import api_keys
from models.accounts.api_keys import ApiKey
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from workers.intake.sources import Signature, Taken

#: What was found is asked for again after so many seconds: a key that was revoked signs as long, at most.
KEY_SECONDS = 5.0
#: Keys remembered, and ids that there are no keys of.
MAX_KEYS = 10_000

UNSIGNED = "not signed, and JIYI_REQUIRE_SIGNED_EVENTS is on; publish with an API key (JIYI_KEY)"


class Signatures:
    """Checks messages. Costs nothing where signatures are neither there nor required."""

    def __init__(self, settings: Settings) -> None:
        self._required = settings.require_signed_events
        self._secret_key = settings.secret_key.get_secret_value()
        self._known: dict[str, tuple[ApiKey | None, float]] = {}

    def look_up(self, messages: Iterable[Taken]) -> None:
        """Learn the keys of a batch, in one question at most. Raises what the database raises."""
        now = time.monotonic()
        wanted = {message.signature.key_id for message in messages if message.signature is not None} - {SERVICE}
        unknown = [key_id for key_id in wanted if ID.fullmatch(key_id) and not self._is_fresh(key_id, now)]
        if not unknown:
            return
        with whole_service(), unit_of_work() as connection:
            found = api_keys.find(connection, unknown)
        if len(self._known) + len(unknown) > MAX_KEYS:
            self._known.clear()
        self._known.update({key_id: (found.get(key_id), now) for key_id in unknown})

    def problem(self, message: Taken) -> str:
        """Why the message is refused before it is opened; empty if it is not. Its keys have been looked up."""
        signature = message.signature
        if signature is None:
            return UNSIGNED if self._required else ""
        if signature.key_id == SERVICE:
            return self._problem_of_service(message.body, signature)
        key, _ = self._known.get(signature.key_id, (None, 0.0))
        if key is None or not verifies(key.signing_key, message.body, signature.value):
            return "the signature is not that of any key of this service over this message"
        refusal = key.refusal(datetime.now(UTC))
        if refusal:
            return f"signed with the key {key.key_id}, which is {refusal}"
        return "" if "publish" in key.scopes else f"signed with the key {key.key_id}, which may not publish"

    def group(self, message: Taken) -> str | None:
        """The one group that an accepted message is signed for; None: any, it is an operator's or not signed."""
        if message.signature is None:
            return None
        if message.signature.key_id == SERVICE:
            return message.signature.group_id
        key, _ = self._known[message.signature.key_id]
        return None if key is None else key.group_id

    def _problem_of_service(self, body: bytes, signature: Signature) -> str:
        if not self._secret_key:
            return "signed by the service, but the intake does not know JIYI_SECRET_KEY"
        if verifies(service_signing_key(self._secret_key, signature.group_id), body, signature.value):
            return ""
        return "not signed by this service: is JIYI_SECRET_KEY the same in every process?"

    def _is_fresh(self, key_id: str, now: float) -> bool:
        kept = self._known.get(key_id)
        return kept is not None and now - kept[1] <= KEY_SECONDS
