"""The flexible window: how much later than its nominal time an occurrence may start, spread by a stable hash."""

import hashlib
from datetime import timedelta

_MILLISECOND = timedelta(milliseconds=1)


def window_offset(run_key: str, window: timedelta) -> timedelta:
    """The offset of one occurrence in `[0, window)`, in whole milliseconds; the same over retries, nodes and releases.

    The first 8 bytes of the MD5 of the run key, without the sign bit, modulo the window. SQL's `rota_window_offset_ms`
    says the same.
    """
    size = window // _MILLISECOND
    if size <= 0:
        return timedelta(0)
    digest = hashlib.md5(run_key.encode(), usedforsecurity=False).digest()
    return (int.from_bytes(digest[:8], "big") & (2**63 - 1)) % size * _MILLISECOND
