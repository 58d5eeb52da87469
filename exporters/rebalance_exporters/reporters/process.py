"""Facts about this process that distinguish a restart from a pause, and a busy process from a frozen one."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

resource: ModuleType | None
try:
    import resource
except ImportError:  # not a Unix
    resource = None

_STAT = Path("/proc/self/stat")
#: Place of `starttime` among the fields that follow the program's name, see proc(5).
_START_FIELD = 19

# Taken while the program starts, if nothing better is known.
_imported_ms = int(time.time() * 1000)
# By process id, since a forked child inherits what its parent found.
_starts_ms: dict[int, int] = {}


def read_process() -> dict[str, Any]:
    """Return `start_ms` (epoch), `pid`, `host`, `cpu_s` used so far and `voluntary_switches`.

    A process that waited gave up the processor of its own accord, one that was frozen did not: the count of voluntary
    switches distinguishes the two. It is null where the system has no such count.
    """
    pid = os.getpid()
    return {
        "start_ms": _starts_ms.get(pid) or _starts_ms.setdefault(pid, _read_start_ms()),
        "pid": pid,
        "host": socket.gethostname(),
        "cpu_s": round(time.process_time(), 3),
        "voluntary_switches": resource and resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw,
    }


def _read_start_ms() -> int:
    """Return when this process started, in epoch ms; where the system does not say, when this module was loaded."""
    try:
        # The program's name may hold anything, even a closing bracket.
        ticks = int(_STAT.read_text().rpartition(")")[2].split()[_START_FIELD])
        age_seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (AttributeError, IndexError, OSError, ValueError):
        return _imported_ms
    return int((time.time() - age_seconds) * 1000)
