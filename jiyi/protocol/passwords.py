"""Passwords of people: made and hashed with scrypt in werkzeug's form, which ``check_password_hash`` checks."""

from __future__ import annotations

import hashlib
import secrets
import string

#: Of werkzeug.security, which checks them: 32 MB and about 60 ms a password.
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**15, 8, 1
SCRYPT_MEMORY = 132 * SCRYPT_N * SCRYPT_R * SCRYPT_P
SALT_CHARS = 16
PASSWORD_HASH = r"^scrypt:32768:8:1\$[A-Za-z0-9]{16}\$[0-9a-f]{128}$"  # noqa: S105
#: Long enough that guessing at the sign-in page, a few times an hour, does not get there.
MIN_PASSWORD, MAX_PASSWORD = 10, 1_000
GENERATED_PASSWORD = 20


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
