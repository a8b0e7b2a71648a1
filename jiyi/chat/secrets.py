"""Secrets in what people say, masked before it leaves the program: keys, passwords, card and identity numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

MASK = "[…]"

#: Prefixes of vendors' keys, and what a long random text after "token" is.
_KEYS = re.compile(
    r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza|hf|jiyi)[-_]?[A-Za-z0-9][A-Za-z0-9_\-]{14,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
#: "password: …", 密码是…: what follows, up to a space.
_PASSWORDS = re.compile(
    r"(?P<head>(?:\b(?:password|passwd|passcode|pwd|api[ _-]?key|secret|access[ _-]?token|pin(?: code)?)\b|密码|口令|密钥|验证码)"
    r"\s*(?:is|are|was|=|:|：|是|为)\s*[\"'“‘「]?)(?P<secret>[^\s\"'”’」,，。;；、]{4,})",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\d.])\d(?:[ -]?\d){11,18}(?![\d])")
#: Chinese identity numbers: 17 digits and a check character.
_IDENTITY = re.compile(r"(?<![0-9A-Za-z])\d{17}[0-9Xx](?![0-9A-Za-z])")
_SSN = re.compile(r"(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)")
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CHECKS = "10X98765432"
#: Digits of a payment card.
CARD_DIGITS = range(13, 20)


def masked(text: str) -> str:
    """The text with its secrets masked; the words around them stay."""
    text = _KEYS.sub(MASK, text)
    text = _PASSWORDS.sub(lambda match: match["head"] + (match["secret"] if _is_a_word(match["secret"]) else MASK), text)
    text = _IDENTITY.sub(_if(is_identity_number), text)
    text = _NUMBER.sub(_if(is_card_number), text)
    return _SSN.sub(MASK, text)


def is_card_number(text: str) -> bool:
    """Whether the digits are a payment card's: of its length, and right by Luhn's check."""
    digits = [int(char) for char in text if char.isdigit()]
    if len(digits) not in CARD_DIGITS or len(set(digits)) == 1:
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
