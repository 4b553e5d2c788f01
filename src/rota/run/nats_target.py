"""The NATS target: the payload as a message to a subject, acknowledged by JetStream, de-duplicated by the run key."""

from collections.abc import Mapping
from typing import Any

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

from rota.base.model import AttemptOutcome
from rota.calendar import write_instant
from rota.run.lease import Lease, Outcome


class NatsPublisher:
    """One connection, opened when the first message is sent. An empty URL means that no broker is configured."""

    def __init__(self, url: str = "", *, timeout_s: float = 10.0) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._client: Client | None = None

    async def publish(self, lease: Lease, target: Mapping[str, Any]) -> Outcome:
        """Send and wait for the stream's acknowledgement."""
        if not self._url:
            return Outcome(
                outcome=AttemptOutcome.REJECTED,
                error_class="NoBroker",
                error="no broker is configured: set ROTA_NATS_URL for the workers",
            )
        headers = {
            "Nats-Msg-Id": str(lease.key),
            "Idempotency-Key": str(lease.key),
            "Rota-Schedule-Id": str(lease.schedule_id),
            "Rota-Scheduled-For": write_instant(lease.scheduled_for),
            "Rota-Attempt": str(lease.attempt),
        }
        try:
            client = await self._connected()
            body = (lease.payload or "null").encode()
            stream = client.jetstream()
            await stream.publish(str(target["subject"]), body, timeout=self._timeout_s, headers=headers)
        except (NatsError, JetStreamError, OSError, TimeoutError) as error:
            return Outcome(
                outcome=AttemptOutcome.FAILED,
                error_class=type(error).__name__,
                error=f"{type(error).__name__}: {error}",
            )
        return Outcome(outcome=AttemptOutcome.SUCCEEDED)

    async def _connected(self) -> Client:
        if self._client is None or self._client.is_closed:
            self._client = await nats.connect(self._url, connect_timeout=5, max_reconnect_attempts=5)
        return self._client

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()
