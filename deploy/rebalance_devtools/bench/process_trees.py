"""Measures memory and processor time of processes and their descendants, as counted by the kernel."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_MIB = 1024
_WORKERS = "rebalance_streaming.spark.worker_daemon"


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of several process trees at one moment in MiB, by process. PSS counts shared pages once."""

    pss: Mapping[str, float] = field(default_factory=dict)
    rss: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """Sum of the PSS of all processes."""
        return sum(self.pss.values())


def read_memory(roots: Mapping[str, int]) -> MemoryUse:
    """Return the memory of the trees under `roots`, given as name and process id."""
    pss: dict[str, float] = defaultdict(float)
    rss: dict[str, float] = defaultdict(float)
    for label, pid in _labelled(roots):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    pss[label] += int(line.split()[1]) / _MIB
                elif line.startswith("Rss:"):
                    rss[label] += int(line.split()[1]) / _MIB
    return MemoryUse(dict(pss), dict(rss))


def read_cpu(roots: Mapping[str, int]) -> dict[str, float]:
    """Return the processor seconds of the trees under `roots` by process; ended children count with their parents."""
    seconds: dict[str, float] = defaultdict(float)
    for label, pid in _labelled(roots):
        with contextlib.suppress(OSError):
            # User and system time, also of children that were waited for.
            ticks = sum(int(field) for field in _stat(pid)[11:15])
            seconds[label] += ticks / _TICKS
    return dict(seconds)


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Processor seconds in a period: of the measured processes, of the broker, and of everything else."""

    seconds: float
    processes: Mapping[str, float]
    broker: float
    others: float

    @property
    def total(self) -> float:
        """Sum over the measured processes."""
        return sum(self.processes.values())


class CpuMeter:
    """Counts processor time since its creation."""

    def __init__(self, roots: Mapping[str, int], broker: int) -> None:
        """Start counting; `roots` and `broker` are process ids, and include their descendants."""
        self._roots, self._broker = roots, {"broker": broker}
        self._began = self._read()

    def read(self) -> CpuUse:
        """Return the usage since the meter was created."""
        (began, first, broker_first, busy_first), (now, last, broker_last, busy_last) = self._began, self._read()
        processes = {name: cpu - first.get(name, 0.0) for name, cpu in last.items()}
        broker = broker_last - broker_first
        others = busy_last - busy_first - broker - sum(processes.values())
        return CpuUse(now - began, processes, broker, others)

    def _read(self) -> tuple[float, dict[str, float], float, float]:
        return time.monotonic(), read_cpu(self._roots), sum(read_cpu(self._broker).values()), _read_busy()


def _read_busy() -> float:
    """Return the busy seconds of all cores of the machine: user, nice, system, interrupts and stolen time."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    return sum(int(fields[number]) for number in (0, 1, 2, 5, 6, 7)) / _TICKS


class PeakMemory:
    """Reads the memory of process trees every second, in a separate thread, and keeps the maximum."""

    def __init__(self, roots: Mapping[str, int]) -> None:
        self.peak = MemoryUse()
        self._roots = roots
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(1):
            found = read_memory(self._roots)
            if found.total > self.peak.total:
                self.peak = found


def _labelled(roots: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield label and process id of every process of the trees; the label of a descendant includes its kind."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children[int(_stat(int(entry.name))[1])].append(int(entry.name))
    for name, root in roots.items():
        yield name, root
        unseen = list(children[root])
        while unseen:
            pid = unseen.pop()
            unseen += children[pid]
            yield f"{name}: {_kind(pid)}", pid


def _kind(pid: int) -> str:
    with contextlib.suppress(OSError):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        if Path(arguments[0]).name == "java":
            return "JVM"
        return "Python workers" if _WORKERS in arguments else "other children"
    return "other children"


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the process name (which may contain any character): state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
