"""A request of many lines that is answered line by line while it still comes in.

Reading, working and answering go on at the same time and never wait for each other's end: a client that sends its whole
body before it reads the answer is served as well as one that does both. Results wait in memory meanwhile; the limit on
the body bounds them.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rota.web.problems import Problem, problem_of

MEDIA_TYPE = "application/x-ndjson"
MAX_BATCH = 2000
MAX_AT_ONCE = 2
MAX_WAITING = 3 * MAX_BATCH


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the body and its number, counted from 1."""

    number: int
    text: bytes


Work = Callable[[Sequence[Line]], Awaitable[Sequence[bytes]]]
Failure = Callable[[int, Problem], bytes]


class Exchange(Response):
    """The answer: `work` gets batches of lines in order and returns a result line for each.

    A body that breaks off or grows too long is answered with one last line made by `failure`; what was done is done.
    """

    media_type = MEDIA_TYPE

    def __init__(self, work: Work, failure: Failure, *, max_line_bytes: int) -> None:
        super().__init__()
        self._work = work
        self._failure = failure
        self._max_line_bytes = max_line_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take part in the exchange until the last line is answered or the client is gone."""
        headers = [(b"content-type", MEDIA_TYPE.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        lines: asyncio.Queue[Line | None] = asyncio.Queue(MAX_WAITING)
        results: asyncio.Queue[bytes | None] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(receive, lines, results), name="bulk-read")
            group.create_task(self._do(lines, results), name="bulk-work")
            group.create_task(_answer(results, send), name="bulk-answer")

    async def _read(
        self, receive: Receive, lines: asyncio.Queue[Line | None], results: asyncio.Queue[bytes | None]
    ) -> None:
        number = 0
        try:
            async for text in split_lines(receive, self._max_line_bytes):
                number += 1
                await lines.put(Line(number, text))
        except Problem as problem:
            await lines.put(None)
            await lines.join()
            await results.put(self._failure(number + 1, problem))
            await results.put(None)
        else:
            await lines.put(None)
            await lines.join()
            await results.put(None)

    async def _do(self, lines: asyncio.Queue[Line | None], results: asyncio.Queue[bytes | None]) -> None:
        """Take what is there, at most a batch of it: batches grow by themselves while the database is busy.

        `MAX_AT_ONCE` batches are worked on at a time; their results go out in the order of the lines.
        """
        is_open = True
        at_work: deque[tuple[int, asyncio.Task[Sequence[bytes]]]] = deque()
        try:
            while is_open or at_work:
                if is_open and len(at_work) < MAX_AT_ONCE and not (at_work and lines.empty()):
                    taken = [await lines.get()]
                    while len(taken) < MAX_BATCH and not lines.empty():
                        taken.append(lines.get_nowait())
                    is_open = taken[-1] is not None
                    batch = [line for line in taken if line is not None and line.text]
                    at_work.append((len(taken), asyncio.create_task(self._result(batch), name="bulk-batch")))
                    continue
                n_taken, work = at_work.popleft()
                await results.put(b"".join(await work))
                for _ in range(n_taken):
                    lines.task_done()
        finally:
            for _, work in at_work:
                work.cancel()

    async def _result(self, batch: Sequence[Line]) -> Sequence[bytes]:
        try:
            return await self._work(batch) if batch else ()
        except Exception as error:  # noqa: BLE001 - the status is sent already: each line tells what went wrong
            problem = problem_of(error)
            return [self._failure(line.number, problem) for line in batch]


async def split_lines(receive: Receive, max_line_bytes: int) -> AsyncIterator[bytes]:
    """The lines of a body as it comes in, without their ends. Ends early when the client is gone.

    Problem 413 for a line that is too long, since its rest would have to be kept to find the next one.
    """
    rest = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        *whole, rest = (rest + message.get("body", b"")).split(b"\n")
        for line in whole:
            yield line.strip()
        if len(rest) > max_line_bytes:
            raise Problem(413, f"a line is longer than {max_line_bytes} bytes")
        if not message.get("more_body", False):
            if rest.strip():
                yield rest.strip()
            return


async def _answer(results: asyncio.Queue[bytes | None], send: Send) -> None:
    while True:
        result = await results.get()
        if result is None:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        await send({"type": "http.response.body", "body": result, "more_body": True})
