"""The scenarios of `rota bench` by name, and which options each takes."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from rota.bench.api import api
from rota.bench.bloat import bloat
from rota.bench.ground import Result, Tell
from rota.bench.lifecycle import lifecycle
from rota.bench.planning import growth, hour, plan
from rota.bench.start import start

SCENARIOS: Final[Mapping[str, Callable[..., Awaitable[Result]]]] = {
    "api": api,
    "bloat": bloat,
    "growth": growth,
    "hour": hour,
    "lifecycle": lifecycle,
    "plan": plan,
    "start": start,
}


async def run(name: str, options: Mapping[str, Any], *, tell: Tell) -> Result:
    """Run one. ValueError for an unknown scenario or an option that it does not take."""
    scenario = SCENARIOS.get(name)
    if scenario is None:
        raise ValueError(f"no scenario is named {name!r}; there are {', '.join(sorted(SCENARIOS))}")
    known = inspect.signature(scenario).parameters
    unknown = [option for option in options if option not in known]
    if unknown:
        raise ValueError(f"{name} does not take --{unknown[0]}")
    return await scenario(**options, tell=tell)
