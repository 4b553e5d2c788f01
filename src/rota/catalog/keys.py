"""API keys: made once and shown once, stored as a hash, looked up by their public part."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rota.base.db import Executor, Row, load_queries
from rota.base.errors import NotFound, ValidationFailed
from rota.base.model import Actor, KeyId, TenantId
from rota.catalog import audit_trail
from rota.catalog.audit_trail import Change
from rota.catalog.fields import Fields

_QUERIES = load_queries(__file__, "keys.sql")
_KEY_TEXT = re.compile(r"rota_([a-z0-9]{8,32})_[A-Za-z0-9-]{16,128}", re.ASCII)
_LONGEST_KEY = 512
_NO_HASH = bytes(32)


class Scope(StrEnum):
    """What a key may do: read, write schedules, take work as a worker, manage keys and quotas."""

    READ = "read"
    WRITE = "write"
    WORKER = "worker"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who a request comes from. An operator sees the whole cell."""

    tenant_id: TenantId
    key_id: KeyId
    scopes: frozenset[Scope]
    is_operator: bool = False
    is_suspended: bool = False

    def may(self, scope: Scope) -> bool:
        """Whether the key has the scope; admin includes read and write."""
        if scope in self.scopes:
            return True
        return Scope.ADMIN in self.scopes and scope in {Scope.READ, Scope.WRITE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A stored key, without its secret."""

    key_id: KeyId
    tenant_id: TenantId
    name: str
    scopes: frozenset[Scope]
    is_operator: bool
    created_at: datetime
    revoked_at: datetime | None


async def create_key(
    tx: Executor,
    tenant_id: TenantId,
    actor: Actor,
    *,
    name: str = "",
    scopes: Collection[str] = tuple(ALL_SCOPES),
    is_operator: bool = False,
    text: str | None = None,
) -> tuple[ApiKey, str]:
    """Make a key; its text is answered here and can never be read again.

    A text may be given, as `rota dev` does for a fixed key; said again with the same text it changes nothing.
    Raises ValidationFailed on unknown scopes, NotFound if the text is the key of another tenant.
    """
    _check(name, scopes, text)
    shown = text if text is not None else f"rota_{secrets.token_hex(6)}_{_secret()}"
    key_id = key_id_of(shown)
    row = await tx.fetch_row(
        _QUERIES["key_insert"], key_id, tenant_id, _hash(shown), name, sorted(set(scopes)), is_operator
    )
    if row is None:
        return await _existing(tx, tenant_id, shown), shown
    key = _key(row)
    after = {"name": name, "scopes": sorted(key.scopes), "is_operator": is_operator}
    await audit_trail.record(tx, actor, _change(key, "key.create", after))
    return key, shown


async def authenticate(db: Executor, text: str) -> Principal | None:
    """Whose key this is, by one indexed look-up; None if it is unknown, revoked or wrong. Takes as long either way."""
    if len(text) > _LONGEST_KEY:
        return None
    row = await db.fetch_row(_QUERIES["key_authenticate"], key_id_of(text))
    is_right = hmac.compare_digest(_hash(text), _NO_HASH if row is None else bytes(row["secret_hash"]))
    if row is None or not is_right or row["revoked_at"] is not None:
        return None
    return Principal(
        tenant_id=row["tenant_id"],
        key_id=row["key_id"],
        scopes=frozenset(Scope(scope) for scope in row["scopes"]),
        is_operator=row["is_operator"],
        is_suspended=row["is_suspended"],
    )


async def list_keys(db: Executor, tenant_id: TenantId, *, after_id: str = "", limit: int = 100) -> list[ApiKey]:
    """A tenant's keys by id, revoked ones too."""
    return [_key(row) for row in await db.fetch(_QUERIES["key_list"], tenant_id, after_id, limit)]


async def revoke_key(tx: Executor, tenant_id: TenantId | None, key_id: str, actor: Actor) -> ApiKey:
    """End a key for good; NotFound if the tenant has none with this id (None: any tenant)."""
    row = await tx.fetch_row(_QUERIES["key_revoke"], tenant_id, key_id)
    if row is None:
        raise NotFound(f"there is no key {key_id}")
    key = _key(row)
    await audit_trail.record(tx, actor, _change(key, "key.revoke", None))
    return key


def key_id_of(text: str) -> KeyId:
    """The public part of a key; of a text that is not of our making, a part of its hash."""
    found = _KEY_TEXT.fullmatch(text)
    return KeyId(found[1] if found else "x" + hashlib.sha256(b"key id of " + _bytes(text)).hexdigest()[:24])


async def _existing(tx: Executor, tenant_id: TenantId, text: str) -> ApiKey:
    key_id = key_id_of(text)
    owner = await authenticate(tx, text)
    row = await tx.fetch_row(_QUERIES["key_get"], tenant_id, key_id)
    if owner is not None and row is not None:
        return _key(row)
    raise NotFound(f"the key {key_id} is not one of this tenant", hint="choose another key text")


def _check(name: str, scopes: Collection[str], text: str | None) -> None:
    fields = Fields()
    if not scopes:
        fields.add("scopes", "must name at least one of " + ", ".join(Scope))
    for scope in scopes:
        fields.choice("scopes", str(scope), [str(known) for known in Scope])
    if name:
        fields.text("name", name, 200)
    if text is not None and not (8 <= len(text) <= _LONGEST_KEY and text.isascii() and text.isprintable()):
        fields.add("key", f"must be 8 to {_LONGEST_KEY} visible ASCII characters")
    if fields.errors:
        raise ValidationFailed(tuple(fields.errors))


def _secret() -> str:
    # 256 bits, without "_", so that the parts of a key stay apart.
    return secrets.token_hex(32)


def _hash(text: str) -> bytes:
    return hashlib.sha256(_bytes(text)).digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _key(row: Row) -> ApiKey:
    return ApiKey(**{**row, "scopes": frozenset(Scope(scope) for scope in row["scopes"])})


def _change(key: ApiKey, action: str, after: dict[str, object] | None) -> Change:
    return Change(tenant_id=key.tenant_id, action=action, object_kind="key", object_id=key.key_id, after=after)
