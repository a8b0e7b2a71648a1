"""Secrets in what people say: keys, passwords, card and identity numbers, masked wherever a text becomes a
memory.

So :data:`jiyi.protocol.base.Description` masks them in a client, before a text leaves the program, and in the
service.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MASK = "[…]"

#: Vendors' keys by their prefixes (of words with hyphens one with a digit soon), tokens, private keys.
_KEYS = re.compile(
    r"\b(?:(?:sk|pk|rk)[-_](?=[A-Za-z0-9_\-]{0,80}\d|[A-Za-z0-9]{15})|gh[opsur]_|github_pat_"
    r"|glpat-|xox[abeprs]-)[A-Za-z0-9_\-]{15,}"
    r"|\b(?:(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[A-Za-z0-9_\-]{15,}|hf_[A-Za-z0-9]{15,}"
    r"|jiyi_[a-z0-9]{8,}_[A-Za-z0-9_\-]{15,})"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
#: "password: …", 密码是…: what follows, up to a space.
_PASSWORDS = re.compile(
    r"(?P<head>(?:\b(?:password|passwd|passcode|pwd|api[ _-]?key|secret|access[ _-]?token|pin(?:"
    r" code)?)\b|密码|口令|密钥|验证码)"
    r"\s*(?:is|are|was|=|:|：|是|为)\s*[\"'“‘「]?)(?P<secret>[^\s\"'”’」,，。;；、]{4,})",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\d.])\d(?:[ -]?\d){11,18}(?![\d])")
#: Chinese identity numbers: 17 digits and a check character.
_IDENTITY = re.compile(r"(?<![0-9A-Za-z])\d{17}[0-9Xx](?![0-9A-Za-z])")
_SSN = re.compile(r"(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)")
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CHECKS = "10X98765432"
#: Digits of a payment card, and how its issuers begin: times and numbers of orders begin otherwise.
CARD_DIGITS = range(13, 20)
_ISSUERS = re.compile(r"3[0-689]|4|5[0-8]|6|2[2-7]")
#: Characters of the shortest of these: 密码:1234, AKIA and twelve more.
SHORTEST, SHORTEST_KEY = 7, 16
#: What none of the numbers goes without.
_DIGITS = re.compile(r"\d(?:[ -]?\d){8}")


def masked(text: str) -> str:
    """The text with its secrets masked; the words around them stay, and so does what is masked already."""
    while (
        less := _masked_once(text)
    ) != text:  # each is longer than its mask, so it ends; as a rule after the first
        text = less
    return text


def _masked_once(text: str) -> str:
    if len(text) < SHORTEST:
        return text
    if len(text) >= SHORTEST_KEY and _may_have_key(text):
        text = _KEYS.sub(MASK, text)
    if _may_have_password(text.lower()):
        text = _PASSWORDS.sub(
            lambda match: match["head"] + (match["secret"] if _is_a_word(match["secret"]) else MASK), text
        )
    if _DIGITS.search(text):
        text = _IDENTITY.sub(_if(is_identity_number), text)
        text = _NUMBER.sub(_if(is_card_number), text)
        text = _SSN.sub(MASK, text)
    return text


# What a text must have for one to be in it: looked for first, since nearly every text has none. Spelt out,
# since a loop takes twice as long for six texts of every event.
def _may_have_key(text: str) -> bool:
    return (
        "_" in text
        or "k-" in text
        or "glpat-" in text
        or "xox" in text
        or "AKIA" in text
        or "ASIA" in text
        or "AIza" in text
        or "eyJ" in text
        or "-----BEGIN" in text
    )


def _may_have_password(lower: str) -> bool:
    return (
        "pass" in lower
        or "pwd" in lower
        or "api" in lower
        or "secret" in lower
        or "token" in lower
        or "pin" in lower
        or "密码" in lower
        or "口令" in lower
        or "密钥" in lower
        or "验证码" in lower
    )


def is_card_number(text: str) -> bool:
    """Whether the digits are a payment card's: of its length, of an issuer, and right by Luhn's check."""
    digits = [int(char) for char in text if char.isdigit()]
    if (
        len(digits) not in CARD_DIGITS
        or len(set(digits)) == 1
        or not _ISSUERS.match("".join(map(str, digits)))
    ):
        return False
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return total % 10 == 0


def is_identity_number(text: str) -> bool:
    """Whether it is a Chinese identity number, by its check character (GB 11643)."""
    total = sum(weight * int(char) for weight, char in zip(_WEIGHTS, text, strict=False))
    return _CHECKS[total % 11] == text[-1].upper()


def _if(is_secret: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    return lambda match: MASK if is_secret(match[0]) else match[0]


def _is_a_word(secret: str) -> bool:
    """No password stands in "my password is wrong": one has a digit or a sign, or mixes cases."""
    return secret.isalpha() and (secret.islower() or not secret.isascii())
