"""Reaching into the service's own network with addresses that only look public."""

from __future__ import annotations

import pytest

from engine.providers.spec import PrivateAddress, check_public, is_public, public_address
from workers.ephemeral import environment


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
        *("::1", "fe80::1%lo", "fc00::1", "ff02::1", "::"),
        # 10.0.0.1 and 169.254.169.254 behind NAT64, 6to4, Teredo, and written as IPv6.
        *("64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:a00:1::1", "2002:a9fe:a9fe::1"),
        *(
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:10.0.0.1",
            "::10.0.0.1",
        ),
        # A public IPv4 address in any of these forms is nobody's public IPv6 address either.
        *("64:ff9b::808:808", "::ffff:8.8.8.8"),
    ],
)
def test_an_address_that_leads_elsewhere_is_not_public(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(PrivateAddress):
        public_address(address, 443)


@pytest.mark.parametrize(
    ("hosts", "refused"),
    [("", True), ("other, localhost:9000", True), ("other, LOCALHOST:8000", False), ("localhost", False)],
)
def test_an_operator_may_let_stores_call_a_private_host(hosts: str, *, refused: bool) -> None:
    with environment(private_hosts=hosts):
        problem = check_public("http://localhost:8000/v1")
    assert (problem is not None) is refused
    assert problem is None or "JIYI_PRIVATE_HOSTS" in problem


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2001:4860:4860::8888", "2606:4700:4700::1111"])
def test_a_public_address_is(address: str) -> None:
    assert is_public(address)
