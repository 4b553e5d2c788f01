"""What the clients can do: one method an operation of the API, whatever way it is sent."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from rota.client.calls import Call, call, effect, given, match, path

Answer = TypeVar("Answer")


class Methods(Generic[Answer]):
    """What both clients can do; `Answer` is a document, or the promise of one."""

    def _send(self, call: Call) -> Answer:
        raise AssertionError("each client sends in its own way")

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Any call of the API by its path: what the other methods are made of. An empty answer is an empty dict."""
        return self._send(call(method, path, body=body, query=query, headers=headers))

    # schedules
    def create_schedule(self, definition: Mapping[str, object], *, idempotency_key: str | None = None) -> Answer:
        """Create a schedule; a repeated key returns the schedule made first."""
        return self._send(effect("/v1/schedules", definition, idempotency_key))

    def get_schedule(self, schedule_id: str) -> Answer:
        """One schedule with its current version and next fires."""
        return self.request("GET", path("schedules", schedule_id))

    def list_schedules(self, **filters: object) -> Answer:
        """One page `{"items", "next_cursor"}`. Filters: name, state, group, label, limit, cursor."""
        return self.request("GET", "/v1/schedules", query=filters)

    def replace_schedule(
        self, schedule_id: str, definition: Mapping[str, object], *, version: int | None, force: bool = False
    ) -> Answer:
        """Replace the definition of the version you read. VersionMismatch when another came first."""
        query = {"force": "true"} if force else None
        return self.request("PUT", path("schedules", schedule_id), body=definition, query=query, headers=match(version))

    def patch_schedule(self, schedule_id: str, changes: Mapping[str, object], *, version: int | None = None) -> Answer:
        """Change the given members (JSON merge patch: null removes)."""
        return self.request("PATCH", path("schedules", schedule_id), body=changes, headers=match(version))

    def cancel_schedule(self, schedule_id: str, *, version: int | None = None) -> Answer:
        """Cancel it for good; its history stays."""
        return self.request("DELETE", path("schedules", schedule_id), headers=match(version))

    def pause_schedule(self, schedule_id: str, *, reason: str | None = None, until: str | None = None) -> Answer:
        """Start nothing of it any more, `until` an instant or for good."""
        return self.request("POST", path("schedules", schedule_id, "pause"), body=given(reason=reason, until=until))

    def resume_schedule(self, schedule_id: str, *, reason: str | None = None, missed: str | None = None) -> Answer:
        """Go on. `missed`: `skip` what was due meanwhile, or let the `misfire` policy decide."""
        return self.request("POST", path("schedules", schedule_id, "resume"), body=given(reason=reason, missed=missed))

    def run_schedule(
        self, schedule_id: str, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> Answer:
        """Run it once now, beside its rhythm; returns the occurrence."""
        return self._send(effect(path("schedules", schedule_id, "run"), given(reason=reason), idempotency_key))

    def backfill_schedule(
        self,
        schedule_id: str,
        *,
        start: str,
        end: str,
        rate: float | None = None,
        idempotency_key: str | None = None,
    ) -> Answer:
        """Run what its rule gives in the past range [start, end), at most `rate` a second."""
        body = given(**{"from": start, "to": end, "rate": rate})
        return self._send(effect(path("schedules", schedule_id, "backfill"), body, idempotency_key))

    def preview(self, timing: Mapping[str, object], **options: object) -> Answer:
        """The next fires of a timing with their marks. Options: after, count, starts_at, ends_at, calendar."""
        return self.request("POST", "/v1/preview", body={"timing": timing, **options})

    # occurrences
    def list_occurrences(self, **filters: object) -> Answer:
        """One page, latest first. Filters: schedule_id, state, start, end, limit, cursor."""
        renamed = {"start": "from", "end": "to"}
        return self.request("GET", "/v1/occurrences", query={renamed.get(name, name): v for name, v in filters.items()})

    def get_occurrence(self, run_key: str) -> Answer:
        """One occurrence with its attempts."""
        return self.request("GET", path("occurrences", run_key))

    def replay_occurrence(
        self, run_key: str, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> Answer:
        """Put a dead occurrence back into the queue with the same run key."""
        return self._send(effect(path("occurrences", run_key, "replay"), given(reason=reason), idempotency_key))

    def replay_occurrences(self, *, idempotency_key: str | None = None, **chosen: object) -> Answer:
        """Replay the dead ones that fit. Members: schedule_id, from, to, dead_reason, rate, reason."""
        return self._send(effect("/v1/occurrences/replay", chosen, idempotency_key))

    def cancel_occurrence(self, run_key: str, *, reason: str | None = None) -> Answer:
        """Cancel one that is not finished; a running one is asked to stop."""
        return self.request("POST", path("occurrences", run_key, "cancel"), body=given(reason=reason))

    # leases
    def claim(self, worker: str, **options: object) -> Answer:
        """Lease due work: `{"leases": [...]}`. Options: queues, handlers, limit, lease."""
        return self.request("POST", "/v1/leases", body={"worker": worker, **options})

    def heartbeat(self, token: str) -> Answer:
        """Keep a lease; tells whether a cancellation was asked for. LeaseLost when it is gone."""
        return self.request("POST", path("leases", token, "heartbeat"), body={})

    def complete(self, token: str, result: object = None) -> Answer:
        """Report success. LeaseLost when somebody else has the work by now."""
        return self.request("POST", path("leases", token, "complete"), body={"result": result})

    def fail(self, token: str, error: str, *, error_class: str | None = None, retry: bool = True) -> Answer:
        """Report failure; `retry=False` sends it to the dead letters at once."""
        body = {"error": error, "retry": retry, **given(error_class=error_class)}
        return self.request("POST", path("leases", token, "fail"), body=body)

    def me(self) -> Answer:
        """Whose key this is and what it may do."""
        return self.request("GET", "/v1/me")
