"""The keeper: the services that see to what must also hold."""

import random
from uuid import uuid4

from rota.base.clock import Clock
from rota.base.db import Database
from rota.base.service import Service
from rota.base.settings import Settings
from rota.sweep.audit import Audit
from rota.sweep.endings import Endings
from rota.sweep.rescue import Rescue
from rota.sweep.retire import Retire

ENDINGS_TICK_S = 5.0


def keeper_services(db: Database, settings: Settings, clock: Clock) -> list[Service]:
    """Everything a process in the keeper role runs. Any number of keepers may run side by side."""
    pick = random.Random().uniform  # noqa: S311 - spreads waits
    owner = f"{settings.node}/{uuid4().hex[:12]}"
    return [
        Rescue(db, max_losses=settings.max_losses, pick=pick, tick_s=settings.rescue_tick_s),
        Endings(db, node=settings.node, tick_s=ENDINGS_TICK_S),
        Retire(db, clock, settings, pick=pick),
        Audit(db, clock, owner=owner, tick_s=settings.audit_tick_s),
    ]
