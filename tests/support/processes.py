"""Real processes for tests: started with their output kept, and surely gone afterwards, each by its own id."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from support.waiting import eventually

# What a process under test may see of this one's environment: no ROTA_* and no PG* setting leaks in.
PASSED_ON = ("HOME", "LANG", "LC_ALL", "PATH", "SSL_CERT_FILE", "TMPDIR", "VIRTUAL_ENV")


class Process:
    """One started process. `output` holds its lines so far, stdout and stderr together."""

    def __init__(self, command: Sequence[str], started: asyncio.subprocess.Process) -> None:
        self.command = tuple(command)
        self.output: list[str] = []
        self._started = started
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, command: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Self:
        """Start a command in a session of its own, with a clean environment and `env` on top."""
        clean = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        started = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**clean, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "200", **(env or {})},
            cwd=cwd,
            start_new_session=True,
            limit=2**20,
        )
        return cls(command, started)

    async def _read(self) -> None:
        assert self._started.stdout is not None
        async for line in self._started.stdout:
            self.output.append(line.decode(errors="replace").rstrip("\n"))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._started.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._started.returncode is None

    @property
    def text(self) -> str:
        """The whole output so far."""
        return "\n".join(self.output)

    async def says(self, words: str, within: float = 60.0) -> str:
        """The first line of the output that contains `words`. AssertionError when it ends or stays silent."""

        def line() -> str | None:
            found = next((line for line in self.output if words in line), None)
            if found is None and self._reader.done():
                raise RuntimeError(f"{self.command} ended ({self._started.returncode}) without {words!r}:\n{self.text}")
            return found

        try:
            return await eventually(line, within) or ""
        except AssertionError as error:
            raise AssertionError(f"{self.command} did not say {words!r} within {within} s:\n{self.text}") from error

    async def ends(self, within: float = 60.0) -> int:
        """Its exit code (negative: the signal). AssertionError when it goes on."""
        try:
            async with asyncio.timeout(within):
                code = await self._started.wait()
                await self._reader
        except TimeoutError as error:
            raise AssertionError(f"{self.command} did not end within {within} s:\n{self.text}") from error
        return code

    def signal(self, sign: signal.Signals) -> None:
        """Send a signal to the process alone; SIGSTOP and SIGCONT pause and resume it."""
        self._started.send_signal(sign)

    async def kill(self) -> None:
        """Kill it at once (kill -9) and wait until it is gone."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                self._started.kill()
        await self._started.wait()

    async def close(self) -> None:
        """Kill what is left of its session, its children too, and stop reading."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await self._started.wait()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


class Processes:
    """Starts processes for one test and ends them all after it."""

    def __init__(self) -> None:
        self._all: list[Process] = []

    async def start(
        self, command: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Process:
        """Start any program."""
        process = await Process.start(command, env, cwd)
        self._all.append(process)
        return process

    async def rota(self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Process:
        """Start `rota` with these arguments."""
        return await self.start([sys.executable, "-m", "rota", *arguments], env, cwd)

    async def python(self, program: str, *arguments: str, env: Mapping[str, str] | None = None) -> Process:
        """Start a Python program given as text."""
        return await self.start([sys.executable, "-c", program, *arguments], env)

    async def close(self) -> None:
        """End everything that was started."""
        for process in self._all:
            await process.close()
