"""Where the `H` of an expression falls: a draw of numbers that is the same in every process and release.

The default is the one of Jenkins (hudson.scheduler.Hash): java.util.Random, seeded with the MD5 of the key folded to
64 bits.
"""

import hashlib
from collections.abc import Callable
from typing import Final

Draws = Callable[[int], int]

_MULTIPLIER: Final = 0x5DEECE66D
_MASK: Final = (1 << 48) - 1


class JavaRandom:
    """The generator of java.util.Random, as its documentation defines it."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def _next31(self) -> int:
        self._state = (self._state * _MULTIPLIER + 0xB) & _MASK
        return self._state >> 17

    def __call__(self, bound: int) -> int:
        """nextInt(bound)."""
        if bound & (bound - 1) == 0:
            return (bound * self._next31()) >> 31
        while True:
            bits = self._next31()
            value = bits % bound
            if bits - value + (bound - 1) < 1 << 31:
                return value


def draws(name: str, key: str | None) -> Draws:
    """The draws of a named hash: `jenkins` (and `any`), `max`, or `const:K`."""
    if name == "max":
        return lambda n: n - 1
    if name.startswith("const:"):
        value = int(name.removeprefix("const:"))
        return lambda n: value
    digest = hashlib.md5((key or "").encode(), usedforsecurity=False).digest()
    folded = bytes(a ^ b for a, b in zip(digest[:8], digest[8:], strict=True))
    return JavaRandom(int.from_bytes(folded, "big"))
