"""Benchmarks: every number in the README comes from here.

    make bench                     all of them
    rebalance-monitor bench live   one of them

Each prints Markdown tables. They run for minutes, use both cores, and talk to a broker of their own on loopback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rebalance_deploy.errors import UserError

Say = Callable[[str], None]


def run(names: Iterable[str], say: Say) -> None:
    """Run the named benchmarks, or all. Raises UserError for an unknown name."""
    from rebalance_deploy.bench import catch_up, decode, diagnosis, exposition, live, paging, replay, scale  # noqa: PLC0415

    benchmarks: dict[str, Callable[[], Iterable[str]]] = {
        "decode": decode.measure,
        "catch-up": catch_up.measure,
        "live": live.measure,
        "replay": replay.measure,
        "diagnosis": diagnosis.measure,
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
