"""`rota bench start`: from the command to a ready API, as a person waits for it."""

import asyncio
import os
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request

from rota.bench.ground import Result, Tell


async def start(*, runs: int = 3, tell: Tell) -> Result:
    """Start `rota dev` on an empty folder, and again on the same one; seconds until /readyz answers 200."""
    fresh: list[float] = []
    again: list[float] = []
    for number in range(runs):
        with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
            fresh.append(await asyncio.to_thread(_once, folder))
            again.append(await asyncio.to_thread(_once, folder))
        tell(f"start {number + 1} of {runs}: {fresh[-1]:.2f} s fresh, {again[-1]:.2f} s again")
    bare = await asyncio.to_thread(_bare)
    median = sorted(fresh)[len(fresh) // 2]
    return Result(
        scenario="start",
        rate=1 / median,
        reference=1 / bare,
        ratio=bare / median,
        target="ready in < 5 s",
        met=median < 5.0,
        rows=[
            {"what": "fresh folder, s", "value": [round(one, 3) for one in fresh]},
            {"what": "same folder, s", "value": [round(one, 3) for one in again]},
            {"what": "an empty Python process, s", "value": round(bare, 3)},
        ],
    )


def _once(folder: str) -> float:
    import subprocess

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "rota", "dev", "--port", str(port), "--data", folder]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ})
    try:
        while time.perf_counter() - started < 60:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                    return time.perf_counter() - started
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
        raise TimeoutError("rota dev was not ready within 60 s")
    finally:
        process.terminate()
        process.wait()


def _bare() -> float:
    import subprocess

    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - started
