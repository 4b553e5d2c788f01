"""Programs a test may need that are not Python packages: found on the machine, or the test is left out, loudly."""

import os
import shutil
from pathlib import Path

SEARCH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])

# marker -> (what it is, names of its program)
SERVICES = {
    "needs_etcd": ("etcd", ("etcd",)),
    "needs_pgbouncer": ("pgbouncer", ("pgbouncer",)),
    "needs_browser": ("Chromium", ("chromium", "chromium-browser", "google-chrome")),
}


def program(*names: str) -> Path | None:
    """The first of these programs that is on the machine."""
    found = (shutil.which(name, path=SEARCH) for name in names)
    return next((Path(path) for path in found if path), None)


def missing() -> dict[str, str]:
    """The markers whose program is not there, with what it is."""
    return {marker: what for marker, (what, names) in SERVICES.items() if program(*names) is None}
