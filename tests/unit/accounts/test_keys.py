"""Keys, signatures and passwords; and the keys' commands without a service."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import timedelta

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from werkzeug.security import check_password_hash

from jiyi.cli.shell import duration, group_first
from jiyi.client.broker import BrokerTransport
from jiyi.client.client import Client
from jiyi.errors import SettingsError
from jiyi.protocol import accounts
from jiyi.protocol.accounts import hash_password, make_password, password_problem
from jiyi.protocol.wire import signatures
from jiyi.protocol.wire.signatures import FORM, KeyText, new_key, parse_key, recognises
from jiyi.settings import Settings

ADDRESSES = {"broker_url": "redis://localhost:1/0", "redis_url": "redis://localhost:1/0"}
#: Made by hand, so that its hash and signing key can be worked out beside it.
KEY = KeyText("abcdefghijkl", "s" * 43)


def test_a_key_is_read_as_it_was_shown_and_none_is_like_another() -> None:
    made = new_key()
    assert parse_key(str(made)) == made
    assert len(str(made)) == len("jiyi__") + 12 + 43
    assert len({str(new_key()) for _ in range(100)}) == 100


@given(st.text(max_size=80))
def test_what_is_no_key_is_none(text: str) -> None:
    assert parse_key(text) is None or FORM.fullmatch(text)
    secret = "s" * 43
    good = f"jiyi_abcdefghijkl_{secret}"
    for wrong in ("jiyi_abcdefghijkl", f"jiyi_ABCDEFGHIJKL_{secret}", f"{good}s", f"{good}\n"):
        assert parse_key(wrong) is None
    assert parse_key(f"jiyi_abcdefghijkl_{'é' * 43}") is parse_key(f"sk_abcdefghijkl_{secret}") is None


def test_the_service_learns_a_hash_and_a_signing_key_and_not_the_secret() -> None:
    assert KEY.secret_hash == hashlib.sha256(b"s" * 43).digest()
    assert KEY.signing_key == hmac.new(b"s" * 43, b"jiyi signed messages 1", "sha256").digest()
    shown = accounts.NewKey.of(KEY).model_dump_json()
    assert KEY.secret not in shown + repr(KEY) + repr({"key": KEY})
    assert bytes.fromhex(accounts.NewKey.of(KEY).secret_hash) == KEY.secret_hash
    assert recognises(KEY.secret_hash, KEY)
    assert not recognises(KEY.secret_hash, KeyText(KEY.key_id, "t" * 43))


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_a_signature_is_of_one_key_over_one_body(body: bytes, other: bytes) -> None:
    signature = signatures.sign(KEY.signing_key, body)
    assert signatures.verifies(KEY.signing_key, body, signature)
    assert signatures.verifies(KEY.signing_key, other, signature) is (body == other)
    assert not signatures.verifies(KeyText("abcdefghijkl", "t" * 43).signing_key, body, signature)
    for none in ("", "00", "é" * 64, "z" * 64, "\x00"):
        assert not signatures.verifies(KEY.signing_key, body, none)


def test_the_service_signs_for_one_group() -> None:
    mine, others = (signatures.service_signing_key("s" * 32, group) for group in ("mine", "others"))
    assert signatures.verifies(mine, b"x", signatures.sign(mine, b"x"))
    assert not signatures.verifies(others, b"x", signatures.sign(mine, b"x"))
    assert signatures.service_headers("s" * 32, "mine", b"x")["jiyi-key"] == "service"
    assert FORM.fullmatch(f"jiyi_{signatures.SERVICE}_{'s' * 43}") is None  # no key can have this id


def test_a_password_is_checked_by_werkzeug_and_only_hashes_of_the_one_strength_are_taken() -> None:
    hashed = hash_password("correct horse 马")
    assert check_password_hash(hashed, "correct horse 马")
    assert not check_password_hash(hashed, "correct horse 牛")
    assert hashed != hash_password("correct horse 马")
    assert accounts.SetPassword(name="mia", password_hash=hashed).password_hash == hashed
    salted = "$abcdefghijklmnop$" + "0" * 128
    others = f"scrypt:1:1:1{salted}", f"scrypt:1048576:8:1{salted}"
    for other in ("correct horse battery", "plain$$x", *others):
        with pytest.raises(ValidationError):
            accounts.SetPassword(name="mia", password_hash=other)
    for name in ("", "a b", "a/b", "x" * 65, "<b>", "a\n"):
        with pytest.raises(ValidationError):
            accounts.UpdatePerson(name=name, disabled=True)


def test_passwords_have_bounds_and_a_made_one_is_within_and_new_each_time() -> None:
    for password, fits in (("x" * 9, False), ("x" * 10, True), ("x" * 1_000, True), ("x" * 1_001, False)):
        assert (password_problem(password) == "") is fits
    assert password_problem(make_password()) == ""
    assert len({make_password() for _ in range(50)}) == 50


def test_durations() -> None:
    for text, seconds in (("90d", 7_776_000), ("24h", 86_400), ("30m", 1_800), ("2w", 1_209_600)):
        assert duration(text) == timedelta(seconds=seconds)
    for text in ("", "90", "d", "-1d", "1.5h", "1y", "9999999d", "１d"):
        with pytest.raises(typer.BadParameter, match="90d"):
            duration(text)


def test_the_group_may_stand_behind_the_command() -> None:
    for words, expected in {
        "nodes a -g x --json": "-g x nodes a --json",
        "nodes --group=x a": "--group=x nodes a",
        "observe a -- -g": "observe a -- -g",
        "keys create c --group a": "--group a keys create c",
        "people add mia --groups a --group b": "--group b people add mia --groups a",
    }.items():
        assert group_first(words.split()) == expected.split()


def _signature(client: Client, body: bytes) -> dict[str, str]:
    assert isinstance(client.transport, BrokerTransport)
    return client.transport.publisher.signature(body)


def test_a_client_signs_what_it_publishes_with_its_key(configure: Callable[..., Settings]) -> None:
    settings = configure(key=str(KEY), **ADDRESSES)
    with Client(settings=settings) as client:
        assert _signature(client, b"body") == {
            "jiyi-key": "abcdefghijkl",
            "jiyi-signature": hmac.new(KEY.signing_key, b"body", "sha256").hexdigest(),
        }
    other = new_key()
    with Client(settings=settings, key=str(other)) as client:
        assert _signature(client, b"body")["jiyi-key"] == other.key_id
    with Client(settings=settings, key="") as client:
        assert _signature(client, b"body") == {}


def test_a_client_on_the_service_s_own_machine_signs_with_its_secret_only_where_it_must(
    configure: Callable[..., Settings],
) -> None:
    settings = configure(secret_key="s" * 32, group="g", **ADDRESSES)
    with Client(settings=settings) as client:
        assert _signature(client, b"body") == {}
    settings = configure(secret_key="s" * 32, accept_unsigned="none", **ADDRESSES)
    with Client(settings=settings) as client:
        assert _signature(client, b"body") == signatures.service_headers("s" * 32, "g", b"body")


def test_a_key_that_is_none_is_refused_without_repeating_it(configure: Callable[..., Settings]) -> None:
    settings = configure(key="jiyi_hunter2", **ADDRESSES)
    with pytest.raises(SettingsError, match="JIYI_KEY") as caught:
        Client(settings=settings)
    assert "hunter2" not in str(caught.value)


def test_a_secret_that_can_be_guessed_is_refused_without_repeating_it(
    configure: Callable[..., Settings],
) -> None:
    assert signatures.need_secret_key(configure(secret_key="x" * 32)) == "x" * 32
    for secret, said in (("", "is not set"), ("hunter2" * 4, "has 28 characters")):
        with pytest.raises(SettingsError, match=f"JIYI_SECRET_KEY {said}") as caught:
            signatures.need_secret_key(configure(secret_key=secret))
        assert "hunter2" not in str(caught.value)
    for limit in ("0/minute", "1200", "10/fortnight", "-1/second"):
        with pytest.raises(SettingsError, match="JIYI_RATE_LIMIT"):
            configure(rate_limit=limit)
