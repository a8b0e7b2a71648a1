"""Whether a message may come in: signed by whom it says, with a key that may, for its own group."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from jiyi.protocol.wire.api_keys import ID
from jiyi.protocol.wire.signatures import SERVICE, service_signing_key, verifies
from jiyi.settings import Settings
from models.accounts.api_keys import ApiKey
from models.accounts.known_keys import known_keys
from workers.intake.sources import Signature, Taken

UNSIGNED = "not signed, and JIYI_REQUIRE_SIGNED_EVENTS is on; publish with an API key (JIYI_KEY)"


class Signatures:
    """Checks messages. Costs nothing where signatures are neither there nor required."""

    def __init__(self, settings: Settings) -> None:
        self._required = settings.require_signed_events
        self._secret_key = settings.secret_key.get_secret_value()
        self._keys = known_keys()
        #: Of the batch that was looked up last.
        self._known: dict[str, ApiKey] = {}

    def look_up(self, messages: Iterable[Taken]) -> None:
        """Learn the keys of a batch, in one question at most. Raises what the database raises."""
        ids = {message.signature.key_id for message in messages if message.signature is not None}
        self._known = self._keys.get_many(key_id for key_id in ids if ID.fullmatch(key_id))

    def problem(self, message: Taken) -> str:
        """Why the message is refused before it is opened; empty if it is not. Its keys have been looked up."""
        signature = message.signature
        if signature is None:
            return UNSIGNED if self._required else ""
        if signature.key_id == SERVICE:
            return self._problem_of_service(message.body, signature)
        key = self._known.get(signature.key_id)
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
        return self._known[message.signature.key_id].group_id

    def _problem_of_service(self, body: bytes, signature: Signature) -> str:
        if not self._secret_key:
            return "signed by the service, but the intake does not know JIYI_SECRET_KEY"
        if verifies(service_signing_key(self._secret_key, signature.group_id), body, signature.value):
            return ""
        return "not signed by this service: is JIYI_SECRET_KEY the same in every process?"
