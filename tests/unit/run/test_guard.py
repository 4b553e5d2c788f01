"""Which addresses may be called."""

import pytest

from rota.run.guard import BlockedAddressError, check_literal, is_public


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "1.1.1.1"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_public(address)
    check_literal(address, allow_private=False)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.1", "0x7f000001", "2130706433", "0.0.0.0", "10.0.0.1", "172.16.5.4", "192.168.1.1",
        "169.254.169.254", "100.64.0.1", "198.18.0.1", "192.0.0.8", "224.0.0.1", "255.255.255.255", "240.0.0.1",
        "::1", "[::1]", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2001::1", "fec0::1",
    ],
)  # fmt: skip
def test_private_and_reserved_addresses_are_refused_in_every_spelling(address: str) -> None:
    with pytest.raises(BlockedAddressError, match="not allowed"):
        check_literal(address, allow_private=False)
    check_literal(address, allow_private=True)


def test_names_are_left_to_the_resolver() -> None:
    check_literal("example.com", allow_private=False)
