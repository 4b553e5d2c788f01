"""Which `rota dev` runs on this machine for this user: so that other commands in a second shell find it.

One small file a running `dev`, readable by its owner only, removed when it stops. A file whose process is gone counts
for nothing.
"""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDev:
    """Where a running `rota dev` is reached: by HTTP with its key, and its database."""

    pid: int
    data_dir: str
    url: str
    key: str
    dsn: str


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "rota" / "dev"


def announce(dev: RunningDev) -> Path:
    """Write the entry of this process; returns the file to remove at the end."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{dev.pid}.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(dev), file)
    return path


def running(data_dir: Path | None = None) -> RunningDev | None:
    """The newest running `dev`, or the one on this data folder; None if there is none."""
    found: list[tuple[float, RunningDev]] = []
    for path in _folder().glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            dev = RunningDev(**json.loads(path.read_text()))
            if not Path(f"/proc/{dev.pid}").exists() and not _is_alive(dev.pid):
                path.unlink(missing_ok=True)
                continue
            if data_dir is None or Path(dev.data_dir) == data_dir.expanduser().absolute():
                found.append((path.stat().st_mtime, dev))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
