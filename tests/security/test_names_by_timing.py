"""Finding out at the sign-in page which names there are, by how long an answer takes."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from flask import Flask

from jiyi.protocol.accounts import PASSWORD_HASH
from models.accounts import sign_in as signing_in
from tests.services import PASSWORD, somebody


def _token(page: str) -> str:
    found = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def test_whatever_name_is_typed_one_password_is_hashed(
    web_app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashing is nearly all of the time that an answer takes, so it is counted rather than timed."""
    hashed: list[str] = []
    check = signing_in.check_password_hash

    def counted(stored: str, given: str) -> bool:
        hashed.append(stored)
        return check(stored, given)

    monkeypatch.setattr(signing_in, "check_password_hash", counted)
    names = {
        "known": somebody().name,
        "unknown": f"nobody-{uuid4().hex}",
        "not storable": "a\0b",
        "blank": " ",
    }
    for kind, name in names.items():
        browser = web_app.test_client()
        browser.environ_base["REMOTE_ADDR"] = f"2001:db8:{uuid4().hex[:4]}::1"
        token = _token(browser.get("/sign-in").text)
        guess = {"name": name, "password": f"not {PASSWORD}", "csrf_token": token}
        assert browser.post("/sign-in", data=guess).status_code == 403
        assert len(hashed) == 1, kind
        assert re.fullmatch(PASSWORD_HASH, hashed.pop())
