"""Everything that can be refused or go wrong, each with a stable code that API, CLI, logs and metrics share.

RotaError
├── ValidationFailed     the request is wrong: which fields, why, what to do       422
├── Unauthenticated      no key, or not one of ours                                401
├── Forbidden            the key lacks the scope                                   403
├── NotFound             no such object, or not yours: both look the same          404
├── Conflict             the object is in another state than needed                409
│   └── LeaseLost        the lease ran out or the occurrence has moved on          409
├── VersionMismatch      somebody changed it since you read it                     412
├── PayloadTooLarge      over the size limit                                       413
├── QuotaExceeded        over the tenant's quota                                   429
├── DatabaseUnavailable  cannot be reached, or does not take writes                503
├── SchemaTooNew         this program is older than the schema it found
├── SchemaTooOld         the schema has to be migrated first
└── ConfigError          a setting is wrong
"""

from collections.abc import Sequence
from dataclasses import dataclass


class RotaError(Exception):
    """The root. `code` never changes its meaning; `hint` says what to do."""

    default_code = "error"

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code or self.default_code
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One fault of a request: the path of the field (`timing.cron`), what is wrong, the value, what to do."""

    field: str
    message: str
    value: object = None
    hint: str = ""


class ValidationFailed(RotaError):
    """The request is wrong; `errors` holds every fault that was found."""

    default_code = "validation_failed"

    def __init__(self, errors: Sequence[FieldError], *, code: str = "", hint: str = "") -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(f"{e.field}: {e.message}" for e in self.errors), code=code, hint=hint)


class Unauthenticated(RotaError):
    """No key, or not one of ours."""

    default_code = "unauthenticated"


class Forbidden(RotaError):
    """The key lacks the scope."""

    default_code = "forbidden"


class NotFound(RotaError):
    """No such object, or somebody else's."""

    default_code = "not_found"


class Conflict(RotaError):
    """The object is in another state than the request needs."""

    default_code = "conflict"


class LeaseLost(Conflict):
    """The lease ran out, was taken by another, or the occurrence is finished."""

    default_code = "lease_lost"


class VersionMismatch(RotaError):
    """The version asked for is not the current one."""

    default_code = "version_mismatch"


class PayloadTooLarge(RotaError):
    """Over the size limit."""

    default_code = "payload_too_large"


class QuotaExceeded(RotaError):
    """Over a quota of the tenant."""

    default_code = "quota_exceeded"


class DatabaseUnavailable(RotaError):
    """The database cannot be reached or does not take writes now."""

    default_code = "database_unavailable"


class SchemaTooNew(RotaError):
    """The database was migrated by a newer program than this one."""

    default_code = "schema_too_new"


class SchemaTooOld(RotaError):
    """The database has migrations to come."""

    default_code = "schema_too_old"


class ConfigError(RotaError):
    """A setting is wrong."""

    default_code = "config_error"
