"""Benchmarks: the source of every number in the README.

    make bench                     all of them
    rebalance-monitor bench live   one of them
    PEER=kminion:/path make bench  with the cold start of another program for comparison

Each prints Markdown tables. They run for minutes, use both cores, and start their own broker on loopback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from rebalance_deploy.errors import UserError
from rebalance_deploy.logs import Say


def run(names: Iterable[str], cold_start_options: Mapping[str, Any], say: Say) -> None:
    """Run the named benchmarks, or all. Raises UserError for an unknown name or invalid options."""
    from rebalance_devtools.bench import (  # noqa: PLC0415
        catch_up,
        cold_start,
        decode,
        diagnosis,
        ends,
        exposition,
        live,
        paging,
        replay,
        scale,
    )

    benchmarks: dict[str, Callable[[], Iterable[str]]] = {
        "decode": decode.measure,
        "catch-up": catch_up.measure,
        "cold-start": partial(cold_start.measure, cold_start.make_options(cold_start_options)),
        "live": live.measure,
        "replay": replay.measure,
        "diagnosis": diagnosis.measure,
        "ends": ends.measure,
        "exposition": exposition.measure,
        "paging": paging.measure,
        "scale": scale.measure,
    }
    chosen = list(names) or list(benchmarks)
    unknown = [name for name in chosen if name not in benchmarks]
    if unknown:
        raise UserError(f"no benchmark {', '.join(unknown)}; there are {', '.join(benchmarks)}")
    for name in chosen:
        say(f"\n### {name}\n")
        for line in benchmarks[name]():
            say(line)
