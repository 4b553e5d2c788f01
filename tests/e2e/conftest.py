"""A running `rota dev` for end-to-end tests, and a bare HTTP client of its API."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest

from support.processes import Process, Processes
from support.waiting import eventually, free_port

KEY = "rota_dev_0123456789abcdef0123456789abcdef"


class Api:
    """The API as any HTTP client sees it: no code of ours in between."""

    def __init__(self, url: str, key: str = KEY) -> None:
        self.url = url
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, **query: str
    ) -> tuple[int, Any]:
        """Status and parsed body of one call."""
        async with self._session.request(method, self.url + path, json=body, params=query, headers=headers) as answer:
            text = await answer.text()
            kind = answer.headers.get("Content-Type", "")
            return answer.status, (await answer.json(content_type=None)) if text and "json" in kind else text

    async def create(self, **document: Any) -> dict[str, Any]:
        """Create a schedule that must be accepted."""
        status, made = await self.call("POST", "/v1/schedules", document)
        assert status == 201, made
        return dict(made)

    async def occurrences(self, schedule_id: str, **query: str) -> list[dict[str, Any]]:
        """The first page of a schedule's occurrences."""
        status, page = await self.call("GET", "/v1/occurrences", schedule_id=schedule_id, **query)
        assert status == 200, page
        return list(page["items"])

    async def reaches(self, schedule_id: str, state: str, n: int = 1, within: float = 30.0) -> list[dict[str, Any]]:
        """Wait until `n` occurrences of the schedule are in that state."""

        async def enough() -> list[dict[str, Any]] | None:
            found = await self.occurrences(schedule_id, state=state)
            return found if len(found) >= n else None

        return await eventually(enough, within) or []


async def start_dev(processes: Processes, data: Path, port: int, **env: str) -> Process:
    """Start `rota dev` and wait until it says that it is ready."""
    process = await processes.rota("dev", "--port", str(port), "--data", str(data), env={"ROTA_DEV_KEY": KEY, **env})
    await ready(f"http://127.0.0.1:{port}", process)
    return process


async def ready(url: str, process: Process, within: float = 60.0) -> None:
    """Wait until /readyz answers 200."""
    async with aiohttp.ClientSession() as session:

        async def answers() -> bool:
            if not process.is_running:
                raise RuntimeError(f"it ended:\n{process.text}")
            try:
                async with session.get(url + "/readyz") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await eventually(answers, within)


@pytest.fixture
async def api(processes: Processes, tmp_path: Path) -> AsyncIterator[Api]:
    """The API of a fresh `rota dev`."""
    port = free_port()
    await start_dev(processes, tmp_path / "data", port)
    async with Api(f"http://127.0.0.1:{port}") as made:
        yield made
