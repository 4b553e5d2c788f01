"""The small process between rota and its embedded PostgreSQL: it starts the server and never outlives its parent.

Run by file path with `python -I -S`, so it uses the standard library alone and starts in a few milliseconds. It holds
the read end of a pipe (its stdin) whose other end only the parent has. However the parent ends, kill -9 included, the
pipe closes, and the guard shuts the server down. Should the guard itself be killed, Linux signals the server for it.

It says `ready` on stdout once the server accepts connections. If the server ends before that, it says nothing.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the parent asks for; sent as JSON in the only argument."""

    command: list[str]
    environment: dict[str, str]
    postmaster_pid: str
    log: str
    socket_dir: str
    user: int | None
    group: int | None
    keep_fds: list[int]
    stop_within_s: float


def die_with_me(parent: int) -> Callable[[], None]:
    """A function for the forked child: ask Linux to send it SIGINT (fast shutdown) when the guard dies."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def ask() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
            if os.getppid() != parent:  # the guard died between fork and prctl
                os._exit(1)

    return ask


def launch(order: Order) -> subprocess.Popen[bytes]:
    """Start the server as the wanted account; the death signal comes after that, for a change of ids clears it."""
    with Path(order.log).open("ab") as log:
        return subprocess.Popen(
            order.command,
            env=order.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=order.keep_fds,
            user=order.user,
            group=order.group,
            extra_groups=None if order.user is None else [],
            preexec_fn=die_with_me(os.getpid()),  # noqa: PLW1509 - safe, the guard has one thread
        )


def is_ready(order: Order, pid: int) -> bool:
    """Whether this very server has written `ready` as its state."""
    try:
        lines = Path(order.postmaster_pid).read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"


def watch(order: Order, server: subprocess.Popen[bytes], wake: int) -> None:
    """Return when the parent has gone, when a signal asks to stop, or when the server has ended."""
    announced = False
    while server.poll() is None:
        readable, _, _ = select.select([sys.stdin.fileno(), wake], [], [], None if announced else 0.005)
        if sys.stdin.fileno() in readable and not os.read(sys.stdin.fileno(), 1024):
            return
        if wake in readable and signal.SIGTERM in os.read(wake, 1024):
            return
        if not announced and is_ready(order, server.pid):
            announced = True
            with contextlib.suppress(BrokenPipeError):
                os.write(sys.stdout.fileno(), b"ready\n")


def end(order: Order, server: subprocess.Popen[bytes]) -> int:
    """Shut the server down: fast (sessions end, a checkpoint is written), then at once, then by force."""
    for sign, patience_s in ((signal.SIGINT, order.stop_within_s), (signal.SIGQUIT, 10.0), (signal.SIGKILL, None)):
        if server.poll() is None:
            server.send_signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(patience_s)
    shutil.rmtree(order.socket_dir, ignore_errors=True)
    return server.returncode


def main() -> int:
    """Start, watch, end; the exit code is 0 when the server shut down in order."""
    order = Order(**json.loads(sys.argv[1]))
    wake, signalled = os.pipe()
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    for sign in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(sign, lambda *_: None)
    for sign in (signal.SIGINT, signal.SIGHUP):  # a terminal tells the parent, and the parent tells us
        signal.signal(sign, signal.SIG_IGN)
    server = launch(order)
    watch(order, server, wake)
    return int(end(order, server) != 0)


if __name__ == "__main__":
    sys.exit(main())
