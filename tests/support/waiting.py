"""Waiting for a condition with a deadline: the only poll the tests have."""

import asyncio
import inspect
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(predicate: Callable[[], T | Awaitable[T]], within: float = 30.0, every: float = 0.02) -> T:
    """The first true value of `predicate` (plain or async). AssertionError with the last value after `within` seconds.

    An AssertionError raised inside counts as not yet, so a predicate may be a block of assertions that returns True.
    """
    give_up_at = time.monotonic() + within
    while True:
        last: object
        try:
            value = predicate()
            last = value = await value if inspect.isawaitable(value) else value  # type: ignore[assignment]
            if value:
                return value  # type: ignore[return-value]
        except AssertionError as error:
            last = error
        if time.monotonic() > give_up_at:
            raise AssertionError(f"not within {within} s: {describe(predicate)}; last value: {last!r}")
        await asyncio.sleep(every)


def describe(predicate: Callable[[], object]) -> str:
    """The predicate's source where there is any, else its name."""
    try:
        return inspect.getsource(predicate).strip()
    except (OSError, TypeError):
        return repr(predicate)


def free_port() -> int:
    """A loopback TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
