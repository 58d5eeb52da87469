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
#: Index of `starttime` among the fields that follow the program's name, see proc(5).
_START_FIELD = 19

# Used if the system does not report the start; this module is imported while the program starts.
_imported_ms = int(time.time() * 1000)
# Keyed by process id, because a forked child inherits its parent's value.
_starts_ms: dict[int, int] = {}


def read_process() -> dict[str, Any]:
    """Return `start_ms` (epoch), `pid`, `host`, `cpu_s` used so far and `voluntary_switches`.

    A process that waits yields the processor voluntarily, a frozen one does not: the count of voluntary switches
    distinguishes the two. It is null on systems without such a count.
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
    """Return the start of this process in epoch ms, or of this module's import if the system does not report it."""
    try:
        # The program's name may hold anything, even a closing bracket.
        ticks = int(_STAT.read_text().rpartition(")")[2].split()[_START_FIELD])
        age_seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (AttributeError, IndexError, OSError, ValueError):
        return _imported_ms
    return int((time.time() - age_seconds) * 1000)
