"""Digests of texts: what is stored to recognise the same text again."""

from __future__ import annotations

import hashlib

from jiyi.text.words import normalise


def text_digest(text: str) -> bytes:
    """The SHA-256 of exactly this text."""
    return hashlib.sha256(text.encode()).digest()


def content_digest(text: str) -> bytes:
    """Equal for texts that differ only in case, width or white space."""
    return text_digest(" ".join(normalise(text).split()))
