"""rota: a multi-tenant, distributed job scheduler on PostgreSQL."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("rota-scheduler")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0"

if TYPE_CHECKING:
    from rota.base.errors import RotaError
    from rota.client import AsyncClient, Client
    from rota.run.app import Attempt, Reject, RetryLater, Rota

_WHERE = {
    "AsyncClient": "rota.client",
    "Attempt": "rota.run.app",
    "Client": "rota.client",
    "Reject": "rota.run.app",
    "RetryLater": "rota.run.app",
    "Rota": "rota.run.app",
    "RotaError": "rota.base.errors",
}

__all__ = ["AsyncClient", "Attempt", "Client", "Reject", "RetryLater", "Rota", "RotaError", "__version__"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: commands that do not need it start faster."""
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'rota' has no attribute {name!r}")
