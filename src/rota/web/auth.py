"""Who calls: the key of a request, looked up at most once a second, and what its scopes allow.

A key is sent as `Authorization: Bearer rota_<id>_<secret>`. Scopes are `read`, `write`, `worker` and `admin`; `admin`
includes `read` and `write`. A suspended tenant reads but does not write. A revoked key is refused within `KEEP_S`, on
every node. An object of another tenant is answered as one that does not exist.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from starlette import types

from rota.base.clock import Clock
from rota.base.db import Database
from rota.base.errors import Forbidden, Unauthenticated
from rota.base.model import Actor
from rota.catalog.keys import Principal, Scope, authenticate

KEEP_S = 1.0
KEEP_MOST = 10_000


class Keys:
    """Looks keys up, and remembers each answer for `KEEP_S`: a busy client costs one look-up a second."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, asyncio.Future[Principal | None]]] = OrderedDict()

    async def principal(self, text: str) -> Principal | None:
        """Whose key this is; None when it is nobody's or revoked."""
        digest = hashlib.sha256(text.encode()).digest()
        now = self._clock.monotonic()
        kept = self._known.get(digest)
        if kept is not None and kept[0] > now:
            return await asyncio.shield(kept[1])
        answer: asyncio.Future[Principal | None] = asyncio.get_running_loop().create_future()
        self._known[digest] = (now + KEEP_S, answer)
        self._known.move_to_end(digest)
        if len(self._known) > KEEP_MOST:
            self._known.popitem(last=False)
        try:
            found = await authenticate(self._db, text)
        except BaseException as error:
            self._known.pop(digest, None)
            answer.set_exception(error if isinstance(error, Exception) else Unauthenticated("the look-up was cut off"))
            answer.exception()  # marked as seen: often nobody else waits for it
            raise
        answer.set_result(found)
        return found

    def forget(self, key_id: str) -> None:
        """Look a key up anew at its next use here: it was changed through this node."""
        for digest, (_, answer) in list(self._known.items()):
            found = answer.result() if answer.done() and answer.exception() is None else None
            if found is not None and found.key_id == key_id:
                del self._known[digest]


def bearer(scope: types.Scope) -> str:
    """The key that a request carries. Unauthenticated when there is none."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, text = value.decode("latin-1").partition(" ")
            if kind.lower() == "bearer" and text.strip():
                return str(text.strip())
            raise Unauthenticated(
                "the Authorization header is not of the form 'Bearer <key>'",
                hint="send the key as Authorization: Bearer rota_...",
            )
    raise Unauthenticated("no key was sent", hint="send the key as Authorization: Bearer rota_...")


def allow(principal: Principal, scope: Scope) -> None:
    """Forbidden unless the caller has the scope, and its tenant may use it now."""
    if not principal.may(scope):
        has = ", ".join(sorted(principal.scopes)) or "none"
        raise Forbidden(
            f"this key may not do that: it lacks the scope {scope}",
            hint=f"use a key with the scope {scope}; this one has {has}",
        )
    if principal.is_suspended and scope is Scope.WRITE and not principal.is_operator:
        raise Forbidden(
            "the tenant is suspended: it can read but not change anything", hint="ask the operator of the cell"
        )


def needs(scope: Scope) -> Callable[[Request], Awaitable[Principal]]:
    """A parameter of a route: the caller, who must have this scope. Forbidden otherwise."""

    async def caller(request: Request) -> Principal:
        return caller_of(request, scope)

    return caller


def caller_of(request: Request, scope: Scope) -> Principal:
    """The caller of a route that takes its parameters itself. Forbidden without the scope."""
    principal: Principal = request.state.principal
    allow(principal, scope)
    return principal


Reader = Annotated[Principal, Depends(needs(Scope.READ))]
Writer = Annotated[Principal, Depends(needs(Scope.WRITE))]
Worker = Annotated[Principal, Depends(needs(Scope.WORKER))]
Admin = Annotated[Principal, Depends(needs(Scope.ADMIN))]


async def anyone(request: Request) -> Principal:
    """A parameter of a route: the caller, whatever its scopes."""
    principal: Principal = request.state.principal
    return principal


async def operator(principal: Admin) -> Principal:
    """A parameter of a route: an operator of the cell. Forbidden otherwise."""
    if not principal.is_operator:
        raise Forbidden("only an operator of the cell may do that", hint="use a key that was made with `--operator`")
    return principal


Anyone = Annotated[Principal, Depends(anyone)]
Operator = Annotated[Principal, Depends(operator)]


def actor_of(principal: Principal, request: Request, reason: str | None = None) -> Actor:
    """How this call is named in the audit trail."""
    return Actor(
        kind="key",
        id=principal.key_id,
        request_id=request.state.request_id,
        reason=reason,
        node=request.app.state.node,
    )
