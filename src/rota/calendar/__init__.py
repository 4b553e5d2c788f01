"""1 WHEN: which instants a rule means. Pure: no clock, no store, no network; zone data from the tzdata package alone.

`Timing.parse` reads what a tenant wrote, `next_after` and `fires` answer in aware UTC. Previews, planning and the
audit call the same functions, so they cannot disagree.
"""

from rota.calendar.batch import run_batch
from rota.calendar.dialects import Dialect
from rota.calendar.durations import format_duration, parse_duration
from rota.calendar.errors import TimingError
from rota.calendar.exclusions import Exclusions
from rota.calendar.instants import read_instant, write_instant
from rota.calendar.policy import PRESETS, DstPolicy
from rota.calendar.preview import Fire
from rota.calendar.reading import default_anchor
from rota.calendar.timing import Timing
from rota.calendar.window import window_offset
from rota.calendar.zone import get_zone, nearest_zone_names, tzdata_version, zone_names

__all__ = [
    "PRESETS",
    "Dialect",
    "DstPolicy",
    "Exclusions",
    "Fire",
    "Timing",
    "TimingError",
    "default_anchor",
    "format_duration",
    "get_zone",
    "nearest_zone_names",
    "parse_duration",
    "read_instant",
    "run_batch",
    "tzdata_version",
    "window_offset",
    "write_instant",
    "zone_names",
]
