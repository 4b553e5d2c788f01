"""Named points at which a test makes a real process die, freeze, wait or fail: one at every hand-off.

`ROTA_FAILPOINTS="plan.before_commit=kill:3,run.after_effect=sleep:5"`: comma-separated `NAME=ACTION`; ACTION is `kill`
(kill -9 of this very process), `stop` (SIGSTOP), `error` (raises FailpointError) or `sleep:SECONDS`; a last `:N`
means only on the N-th time the point is passed (`sleep:5:2`). Empty: nothing costs anything.
"""

import asyncio
import os
import signal
from collections import Counter
from dataclasses import dataclass

ENVIRONMENT = "ROTA_FAILPOINTS"

NAMES = frozenset(
    {
        "plan.after_due_read",
        "plan.before_insert",
        "plan.before_commit",
        "plan.after_commit",
        "edit.before_commit",
        "edit.after_commit",
        "claim.after_commit",
        "run.after_effect",
        "finish.before_commit",
        "finish.after_commit",
        "rescue.before_write",
        "coord.before_takeover",
        "relay.after_publish",
        "relay.before_mark",
    }
)


class FailpointError(RuntimeError):
    """Raised on purpose by a failpoint."""


@dataclass(frozen=True, slots=True)
class _Action:
    kind: str
    seconds: float = 0.0
    only_on: int | None = None


_hits: Counter[str] = Counter()


def parse(text: str) -> dict[str, _Action]:
    """Read the setting. Raises ValueError for unknown names and actions."""
    actions: dict[str, _Action] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, action = part.partition("=")
        kind, *numbers = action.split(":")
        if name not in NAMES:
            raise ValueError(f"no failpoint is named {name!r}; there are: {', '.join(sorted(NAMES))}")
        if kind not in ("kill", "stop", "error", "sleep"):
            raise ValueError(f"failpoint {name}: unknown action {kind!r}; use kill, stop, error or sleep:SECONDS")
        seconds = float(numbers.pop(0)) if kind == "sleep" else 0.0
        actions[name] = _Action(kind, seconds, int(numbers[0]) if numbers else None)
    return actions


_actions = parse(os.environ.get(ENVIRONMENT, ""))


def set_failpoints(text: str) -> None:
    """Set them within this process and start counting anew; empty switches all off."""
    _actions.clear()
    _actions.update(parse(text))
    _hits.clear()


async def failpoint(name: str) -> None:
    """Pass the point of that name."""
    if not _actions:
        return
    action = _due(name)
    if action is not None and action.kind == "sleep":
        await asyncio.sleep(action.seconds)
    elif action is not None:
        _act(name, action)


def _due(name: str) -> _Action | None:
    action = _actions.get(name)
    if action is None:
        return None
    _hits[name] += 1
    return action if action.only_on is None or action.only_on == _hits[name] else None


def _act(name: str, action: _Action) -> None:
    match action.kind:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case _:
            raise FailpointError(f"failpoint {name}")
