"""What looks like a secret in a definition, how it is hidden when read, and how a hidden one is kept when written."""

import re
from urllib.parse import urlsplit

from rota.catalog.fields import MASK

_SECRET = re.compile(
    r"auth|token|secret|passw|passphrase|api[-_]?key|access[-_]?key|cookie|signature|credential|private|session"
    r"|(^|[-_])(key|sig|pwd|pass|jwt)$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a header, query parameter or member of this name is expected to hold a secret."""
    return _SECRET.search(name) is not None


def mask_url(url: str) -> str:
    """The URL with the mask in place of credentials and of secret query parameters."""
    head, mark, query = url.partition("?")
    if "@" in urlsplit(head).netloc:
        scheme, _, rest = head.partition("://")
        head = f"{scheme}://{MASK}@{rest.split('@', 1)[1]}"
    if not mark:
        return head
    return head + mark + "&".join(_mask_pair(pair) for pair in query.split("&"))


def restore_url(url: str, stored: str) -> str:
    """The URL with each masked query parameter replaced by that of the stored URL, if both go to the same host.

    Another host never gets a secret that was given for this one.
    """
    head, mark, query = url.partition("?")
    if not mark or urlsplit(head)[:2] != urlsplit(stored)[:2]:
        return url
    kept = dict(pair.split("=", 1) for pair in stored.partition("?")[2].split("&") if "=" in pair)
    restored = []
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        restored.append(f"{name}={kept[name]}" if value == MASK and name in kept else pair)
    return head + mark + "&".join(restored)


def _mask_pair(pair: str) -> str:
    name, mark, value = pair.partition("=")
    return f"{name}={MASK}" if mark and value and is_secret_name(name) else pair
