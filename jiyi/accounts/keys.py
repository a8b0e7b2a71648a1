"""API keys, signatures of messages, and passwords: made and hashed where they are shown, so that no secret travels.

A key is ``jiyi_<id>_<secret>``. The service knows its id, the SHA-256 of the secret (to recognise it over HTTP) and a
signing key derived from the secret (to check the signatures of messages), from neither of which the secret follows.
A secret of 256 random bits needs no slow hash; a password does.
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
from jiyi.settings import Settings

#: ``publish``: events. ``read``: retrieve and look. ``admin``: change and delete within the group.
#: ``operator``: the whole service, every group.
KeyScope = Literal["publish", "read", "admin", "operator"]
SCOPES: tuple[KeyScope, ...] = ("publish", "read", "admin", "operator")

ALPHABET = string.ascii_lowercase + string.digits
ID_CHARS = 12  # 62 random bits: no two keys of a service have the same
SECRET_BYTES = 32  # 43 characters in URL-safe Base64
ID = re.compile(r"[a-z0-9]{12}")
FORM = re.compile(r"jiyi_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")

#: Headers of a signed message.
KEY_HEADER, SIGNATURE_HEADER, GROUP_HEADER = "jiyi-key", "jiyi-signature", "jiyi-group"
#: In place of a key's id: signed by the service itself, for one group.
SERVICE = "service"
SIGNING_LABEL = b"jiyi signed messages 1"

#: Characters; what is shorter can be guessed.
MIN_SECRET_KEY = 32

#: Of werkzeug.security, which checks them: 32 MB and about 60 ms a password.
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**15, 8, 1
SCRYPT_MEMORY = 132 * SCRYPT_N * SCRYPT_R * SCRYPT_P
SALT_CHARS = 16
PASSWORD_HASH = r"^scrypt:32768:8:1\$[A-Za-z0-9]{16}\$[0-9a-f]{128}$"  # noqa: S105
#: Long enough that guessing at the sign-in page, a few times an hour, does not get there.
MIN_PASSWORD, MAX_PASSWORD = 10, 1_000
GENERATED_PASSWORD = 20


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


def make() -> KeyText:
    """A new key; nobody knows it yet."""
    return KeyText("".join(secrets.choice(ALPHABET) for _ in range(ID_CHARS)), secrets.token_urlsafe(SECRET_BYTES))


def parse(text: str) -> KeyText | None:
    """A key in the form in which it was shown; None if it is none."""
    found = FORM.fullmatch(text)
    return None if found is None else KeyText(found[1], found[2])


def recognises(secret_hash: bytes, key: KeyText) -> bool:
    """Whether it is the key of that hash, in a time that does not depend on where they differ."""
    return hmac.compare_digest(secret_hash, key.secret_hash)


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


def need_secret_key(settings: Settings) -> str:
    """Raises :class:`SettingsError` unless there is a secret that sessions can be signed with."""
    found = settings.secret_key.get_secret_value()
    if len(found) >= MIN_SECRET_KEY:
        return found
    state = f"has {len(found)} characters" if found else "is not set"
    raise SettingsError(
        f"JIYI_SECRET_KEY {state}, and sessions are signed with it: set at least {MIN_SECRET_KEY} random characters, the "
        "same for every process, such as `openssl rand -hex 32` prints (`jiyi up` makes its own)"
    )


def hash_password(password: str) -> str:
    """In werkzeug's form, so that its ``check_password_hash`` checks it; made here, because the client has no werkzeug."""
    salt = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(SALT_CHARS))
    hashed = hashlib.scrypt(password.encode(), salt=salt.encode(), n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P, maxmem=SCRYPT_MEMORY)
    return f"scrypt:{SCRYPT_N}:{SCRYPT_R}:{SCRYPT_P}${salt}${hashed.hex()}"


def password_problem(password: str) -> str:
    """Why it cannot be a password; empty if it can."""
    if len(password) < MIN_PASSWORD:
        return f"a password has at least {MIN_PASSWORD} characters"
    if len(password) > MAX_PASSWORD:
        return f"a password has at most {MAX_PASSWORD:,} characters"
    return ""


def make_password() -> str:
    """About 116 random bits, without characters that look alike."""
    letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    return "".join(secrets.choice(letters) for _ in range(GENERATED_PASSWORD))
