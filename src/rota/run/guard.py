"""Which addresses an HTTP target may be: public ones, unless private ones are allowed for the whole cell.

A name is resolved once, every address it has is checked, and the connection goes to the checked address: nothing is
resolved again in between (DNS rebinding). Checked at each new connection, not when the schedule is written.
"""

import ipaddress
import socket
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_REFUSED: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "100.64.0.0/10",
        "192.0.0.0/24",
        "198.18.0.0/15",
        "64:ff9b:1::/48",
        "fec0::/10",
        "2001::/32",
        "2002::/16",
    )
)


class BlockedAddressError(OSError):
    """The target's address is not allowed; says no more, so that nothing about the network can be learnt from it."""

    def __init__(self) -> None:
        super().__init__("the target's address is not allowed (private, loopback, link-local or reserved)")


def is_public(text: str) -> bool:
    """Whether an IP address may be called. Addresses that embed another (mapped, NAT64) count as that one too."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        embedded = address.ipv4_mapped
        if embedded is None and address in _NAT64:
            embedded = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if embedded is not None:
            return is_public(str(embedded))
    if any(address in network for network in _REFUSED if network.version == address.version):
        return False
    return address.is_global and not address.is_multicast


class GuardedResolver(AbstractResolver):
    """Resolves and checks; raises BlockedAddressError if any of the addresses is not public."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """All addresses of a name, each of them allowed."""
        found = await self._resolver.resolve(host, port, family)
        if not self._allow_private and not all(is_public(result["host"]) for result in found):
            raise BlockedAddressError
        return found

    async def close(self) -> None:
        """Nothing is kept."""
        await self._resolver.close()


def check_literal(host: str, *, allow_private: bool) -> None:
    """An address that is written out is not resolved, so it is checked here. Raises BlockedAddressError."""
    if allow_private:
        return
    bare = host.strip("[]").rstrip(".")
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        # Forms such as 127.1 or 0x7f000001 that the C library would read as addresses.
        try:
            packed: Any = socket.inet_aton(bare)
        except OSError:
            return
        if not is_public(socket.inet_ntoa(packed)):
            raise BlockedAddressError from None
        return
    if not is_public(bare):
        raise BlockedAddressError
