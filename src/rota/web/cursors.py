"""Cursors of listings: opaque, and good only for the tenant, the listing and the filters they were made for.

A cursor holds the keys of the last item shown, signed. It gives no right: each page applies the tenant and the
filters itself. The signature makes a cursor that was changed, or is used for another listing, an error and not a
wrong page.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence

import orjson

from rota.base.db import Database, load_queries
from rota.base.errors import FieldError, ValidationFailed

_QUERIES = load_queries(__file__, "cursors.sql")
SIGNATURE_BYTES = 16
MAX_CHARS = 2000


class Cursors:
    """Makes and reads cursors with one secret that all API nodes of a cell share."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def encode(
        self, tenant_id: int, listing: str, filters: Mapping[str, object], position: Sequence[str | int | float | None]
    ) -> str:
        """The cursor of what follows `position`."""
        text = orjson.dumps(list(position))
        return _to_text(self._sign(tenant_id, listing, filters, text) + text)

    def decode(
        self, cursor: str, tenant_id: int, listing: str, filters: Mapping[str, object]
    ) -> list[str | int | float | None]:
        """The position of a cursor. ValidationFailed when it is not one of this listing."""
        if len(cursor) > MAX_CHARS:
            raise _refused()
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise _refused() from error
        signature, text = raw[:SIGNATURE_BYTES], raw[SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(tenant_id, listing, filters, text)):
            raise _refused()
        return list(orjson.loads(text))

    def _sign(self, tenant_id: int, listing: str, filters: Mapping[str, object], text: bytes) -> bytes:
        bound = orjson.dumps(
            [tenant_id, listing, {name: str(value) for name, value in filters.items()}], option=orjson.OPT_SORT_KEYS
        )
        made = hmac.new(self._secret, len(bound).to_bytes(4, "big") + bound + text, hashlib.sha256)
        return made.digest()[:SIGNATURE_BYTES]


def _to_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _refused() -> ValidationFailed:
    return ValidationFailed(
        (
            FieldError(
                field="cursor",
                message="not a cursor of this listing with these filters",
                hint="send next_cursor back as it was given, with the same filters and key's tenant",
            ),
        )
    )


async def cell_secret(db: Database, name: str) -> bytes:
    """A secret that all nodes of the cell share; the first node to ask makes it."""
    kept = await db.fetch_value(_QUERIES["secret_read"], name)
    if kept is None:
        await db.execute(_QUERIES["secret_make"], name, secrets.token_bytes(32))
        kept = await db.fetch_value(_QUERIES["secret_read"], name)
    return bytes(kept)
