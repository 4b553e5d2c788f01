"""Every knob of a process, once: its unit in the name, its default, the reason.

Read from `rota.toml` in the working directory (or the file named by `ROTA_CONFIG`), then from `ROTA_*` environment
variables, which win: `shard_lease_s` is `ROTA_SHARD_LEASE_S`. Unknown names in the file are refused.
"""

import os
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from rota.base.errors import ConfigError

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one process."""

    # where
    database_url: str = ""  # empty: embedded, which only `rota dev` starts
    db_pool_size: int = 10  # connections of one process, its heartbeat thread apart
    auto_migrate: bool = False  # `rota serve` migrates first; else it refuses an old schema
    statement_cache: bool = True  # off for poolers that do not carry prepared statements
    host: str = "127.0.0.1"  # where the API listens; beyond loopback only on purpose
    port: int = 8080
    node: str = ""  # a name for people; identity is per process anyway
    region: str = "default"  # only the region that holds the current generation plans

    # planning
    horizon_s: float = 300.0  # how far ahead is planned: must cover a failover, and bounds what an edit undoes
    plan_tick_s: float = 5.0  # how often the horizon is moved on
    misfire_threshold_s: float = 5.0  # planned later than this after its time: the misfire policy decides
    shard_lease_s: float = 10.0  # a dead planner's shards are taken over after this
    coordinator: str = "postgres"  # or etcd
    etcd_url: str = "http://127.0.0.1:2379"

    # running
    worker_slots: int = 64  # attempts at once in one worker
    claim_batch: int = 500  # occurrences taken by one claim at the most
    poll_s: float = 0.25  # how long an idle worker may overlook work that came at short notice
    lease_s: float = 30.0  # a silent worker's work is given to others after this
    heartbeat_s: float = 10.0  # a third of the lease: two may get lost
    drain_s: float = 30.0  # what SIGTERM gives running attempts
    max_losses: int = 10  # leases lost before an occurrence is given up as interrupted
    default_timeout_s: float = 300.0  # of handlers that name none
    max_response_bytes: int = 65_536  # kept of a target's answer; the rest is not read
    allow_private_targets: bool = False  # HTTP targets on loopback and private addresses
    nats_url: str = ""  # of the broker for nats targets
    signing_key: str = ""  # Standard Webhooks key (whsec_...): HTTP calls are signed with it

    # keeping
    retention_days: int = 30  # finished occurrences
    dead_letter_days: int = 90
    rescue_tick_s: float = 1.0
    audit_tick_s: float = 60.0

    # doors
    max_body_bytes: int = 1_048_576  # of one API request, bulk apart
    max_bulk_bytes: int = 268_435_456  # of one bulk request: about a million schedules
    max_payload_bytes: int = 262_144  # of one schedule
    log_format: str = "auto"  # json, console, or auto: console on a terminal
    log_level: str = "info"

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """From file and environment; `overrides` (command-line options) that are not None win. Raises ConfigError."""
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {"node": socket.gethostname()}
        values |= _from_file(environ.get("ROTA_CONFIG"))
        for field in fields(cls):
            text = environ.get(f"ROTA_{field.name.upper()}")
            if text is not None:
                values[field.name] = _convert(f"ROTA_{field.name.upper()}", text, field.type)
        values |= {name: value for name, value in overrides.items() if value is not None}
        settings = cls(**values)
        settings._check()
        return settings

    def _check(self) -> None:
        for name in ("horizon_s", "plan_tick_s", "shard_lease_s", "lease_s", "heartbeat_s", "poll_s"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0, it is {getattr(self, name)}")
        if self.heartbeat_s * 2 > self.lease_s:
            raise ConfigError(
                f"heartbeat_s ({self.heartbeat_s:g}) must be at most half of lease_s ({self.lease_s:g})",
                hint="a third is usual: two heartbeats may then get lost",
            )
        if self.horizon_s < 2 * (self.shard_lease_s + self.plan_tick_s):
            raise ConfigError(
                f"horizon_s ({self.horizon_s:g}) does not cover a failover",
                hint="make it at least twice shard_lease_s + plan_tick_s",
            )
        if self.coordinator not in ("postgres", "etcd"):
            raise ConfigError(f"coordinator must be postgres or etcd, it is {self.coordinator!r}")


def _from_file(named: str | None) -> dict[str, Any]:
    path = Path(named or "rota.toml")
    if not path.exists():
        if named:
            raise ConfigError(f"ROTA_CONFIG names {named}, which is not there")
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    types = {field.name: field.type for field in fields(Settings)}
    unknown = sorted(set(found) - set(types))
    if unknown:
        raise ConfigError(f"{path}: unknown setting {unknown[0]!r}", hint=f"known: {', '.join(sorted(types))}")
    return {name: _convert(f"{path}: {name}", str(value), types[name]) for name, value in found.items()}


def _convert(where: str, text: str, kind: object) -> Any:
    try:
        if kind is bool:
            return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}[text.strip().lower()]
        if kind in (int, float):
            return kind(text)
        return text
    except (ValueError, KeyError):
        name = getattr(kind, "__name__", str(kind))
        raise ConfigError(f"{where}: expected {name}, found {text!r}") from None
