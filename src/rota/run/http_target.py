"""The HTTP target: one call, one attempt. No redirects, no hidden retries, no cookies, no proxy; bounded in time and
bytes."""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import orjson
from standardwebhooks import Webhook
from yarl import URL

from rota.base.model import AttemptOutcome
from rota.base.telemetry import redact
from rota.calendar import parse_duration, write_instant
from rota.run.guard import BlockedAddressError, GuardedResolver, check_literal
from rota.run.lease import Lease, Outcome
from rota.run.retry import parse_retry_after

_RETRIED_STATUSES: Final = frozenset({408, 425, 429})
_MAX_CONNECTIONS: Final = 1000
_CHUNK: Final = 16_384
_USER_AGENT: Final = f"rota/{version('rota-scheduler')}"


class HttpCaller:
    """Calls targets over one pool of connections."""

    def __init__(self, *, allow_private: bool, max_response_bytes: int, signing_key: str = "") -> None:
        self._allow_private = allow_private
        self._max_bytes = max_response_bytes
        self._webhook = Webhook(signing_key) if signing_key else None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the pool."""
        connector = aiohttp.TCPConnector(
            limit=_MAX_CONNECTIONS,
            resolver=GuardedResolver(allow_private=self._allow_private),
            use_dns_cache=False,
            keepalive_timeout=15,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            raise_for_status=False,
            skip_auto_headers=("Accept-Encoding",),
        )
        # The library repeats idempotent methods on a broken connection by itself; attempts are ours to count.
        self._session._retry_connection = False

    async def close(self) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    async def call(self, lease: Lease, target: Mapping[str, Any]) -> Outcome:
        """One attempt. `timeout` is the total time, connecting and the answer's body included."""
        seconds = parse_duration(target.get("timeout", "30s")).total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(lease, target)
        except TimeoutError:
            return _failed(AttemptOutcome.TIMED_OUT, "Timeout", f"no complete answer within {seconds:g} s")
        except BlockedAddressError as error:
            return _failed(AttemptOutcome.REJECTED, "BlockedAddress", str(error))
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, BlockedAddressError) or isinstance(error.__cause__, BlockedAddressError):
                return _failed(AttemptOutcome.REJECTED, "BlockedAddress", str(BlockedAddressError()))
            return _failed(
                AttemptOutcome.FAILED, "Connection", f"cannot connect: {error.os_error.strerror or 'refused'}"
            )
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            return _failed(
                AttemptOutcome.REJECTED, "InvalidUrl", f"not a URL that can be called: {type(error).__name__}"
            )
        except (aiohttp.ClientError, OSError) as error:
            return _failed(AttemptOutcome.FAILED, "Connection", redact(f"{type(error).__name__}: {error}")[:500])

    async def _exchange(self, lease: Lease, target: Mapping[str, Any]) -> Outcome:
        assert self._session is not None  # noqa: S101 - started by the worker
        url = str(target["url"])
        check_literal(urlsplit(url).hostname or "", allow_private=self._allow_private)
        method = str(target.get("method", "POST"))
        body = _body(lease, target)
        headers = self._headers(lease, target, body)
        if method in ("GET", "HEAD"):
            body = b""
        async with self._session.request(
            method,
            URL(url, encoded=True) if "%" in url else url,
            data=body or None,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            text, is_cut = await self._read(answer)
            if is_cut:
                answer.close()
            return _outcome(answer, text + ("…" if is_cut else ""))

    async def _read(self, answer: aiohttp.ClientResponse) -> tuple[str, bool]:
        """The start of the body, as it came (never decompressed). The status decides; a body that breaks off is cut."""
        kept = bytearray()
        try:
            while len(kept) < self._max_bytes:
                chunk = await answer.content.read(min(_CHUNK, self._max_bytes - len(kept)))
                if not chunk:
                    return kept.decode("utf-8", "replace"), False
                kept += chunk
        except aiohttp.ClientError:
            pass
        return kept.decode("utf-8", "replace"), True

    def _headers(self, lease: Lease, target: Mapping[str, Any], body: bytes) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": _USER_AGENT}
        chosen = target.get("headers") or {}
        lower = {name.lower() for name in chosen}
        headers = {name: value for name, value in headers.items() if name.lower() not in lower}
        headers |= {str(name): str(value) for name, value in chosen.items()}
        key = str(lease.key)
        headers["Idempotency-Key"] = key
        headers["Rota-Schedule-Id"] = str(lease.schedule_id)
        headers["Rota-Schedule-Name"] = _header_text(lease.schedule_name)
        headers["Rota-Scheduled-For"] = write_instant(lease.scheduled_for)
        headers["Rota-Attempt"] = str(lease.attempt)
        headers["traceparent"] = traceparent(key)
        if self._webhook is not None:
            now = datetime.now(UTC)
            headers["webhook-id"] = key
            headers["webhook-timestamp"] = str(int(now.timestamp()))
            headers["webhook-signature"] = self._webhook.sign(key, now, body.decode())
        return headers


def traceparent(key: str) -> str:
    """W3C Trace Context: one trace a run key, so that retries stand together; a new span an attempt."""
    trace = hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()
    return f"00-{trace}-{secrets.token_hex(8)}-01"


def _body(lease: Lease, target: Mapping[str, Any]) -> bytes:
    payload = lease.payload or "null"
    if target.get("body") != "envelope":
        return payload.encode()
    head = {
        "key": str(lease.key),
        "schedule_id": str(lease.schedule_id),
        "schedule_name": lease.schedule_name,
        "scheduled_for": write_instant(lease.scheduled_for),
        "attempt": lease.attempt,
    }
    return orjson.dumps(head)[:-1] + b',"payload":' + payload.encode() + b"}"


def _header_text(text: str) -> str:
    """A name as a header value: ASCII, others percent-encoded (RFC 8187 style), no control characters."""
    return "".join(
        one if " " <= one <= "~" and one != "%" else "".join(f"%{b:02X}" for b in one.encode()) for one in text
    )


def _outcome(answer: aiohttp.ClientResponse, text: str) -> Outcome:
    status = answer.status
    if 200 <= status < 300:
        return Outcome(outcome=AttemptOutcome.SUCCEEDED, status=status, result=text)
    if 300 <= status < 400:
        return _failed(AttemptOutcome.REJECTED, "Redirect", f"answered {status}: redirect blocked", status)
    if status in _RETRIED_STATUSES or status >= 500:
        asked = parse_retry_after(answer.headers.get("Retry-After"), datetime.now(UTC))
        error = f"answered {status}: {text}"
        return Outcome(
            outcome=AttemptOutcome.FAILED, status=status, error_class=f"Http{status}", error=error, asked=asked
        )
    return _failed(AttemptOutcome.REJECTED, f"Http{status}", f"answered {status}: {text}", status)


def _failed(outcome: AttemptOutcome, error_class: str, error: str, status: int | None = None) -> Outcome:
    return Outcome(outcome=outcome, status=status, error_class=error_class, error=error)
