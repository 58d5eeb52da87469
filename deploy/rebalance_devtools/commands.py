"""Commands that a checkout adds to the command line: `bench`, `fleet`, and `demo --story`.

Commands import what they need when they run, so that `--help` is fast.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from rebalance_kafka.signals import set_on_signals

F = TypeVar("F", bound=Callable[..., Any])

_STORY = click.Option(
    ["--story"],
    type=click.Choice(["a", "b", "c", "d", "e"], case_sensitive=False),
    help="Play a real incident and its fix instead; takes two to five minutes.",
)
_STORIES = """
\b
Stories, each with the clients it happened to; exit code 0 only if the monitor explains it:
  a  evicted whenever the topic is idle          (kafka-python 1.4.6)
  b  everybody waits for one that does not poll  (Java)
  c  the same batch again and again              (Java)
  d  evicted by its own work                     (kafka-python 2.2)
  e  newcomers die with PartitionOwnedError      (pykafka, ZooKeeper)
Without --kafka-version, each story uses the version of the broker that suits its clients.
"""

_COLD_START_FLAGS = (
    click.option("--groups", type=int, help="Groups in the log that a cold start reads."),
    click.option("--partitions", type=int, help="Partitions that each group reads."),
    click.option("--commits", type=int, help="Commits in that log."),
    click.option("--source-partitions", type=int, help="Partitions of that log."),
    click.option("--seed", type=int, help="Random seed of the generated log."),
    click.option(
        "--keep", type=click.Path(path_type=Path), help="Directory to keep filled brokers in for the next run."
    ),
    click.option("--json", "json_file", type=click.Path(path_type=Path), help="Also write the figures to this file."),
    click.option("--logs", type=click.Path(path_type=Path), help="Directory for the logs of the measured processes."),
    click.option(
        "--peer",
        envvar="PEER",
        metavar="kminion:PATH",
        help="Measure this tool too, for comparison (environment: PEER).",
    ),
    click.option(
        "--deadline", "deadline_seconds", type=float, help="Maximum seconds until all lag values are correct."
    ),
    click.option(
        "--settle", "settle_seconds", type=float, help="Seconds to wait between correct lag and the idle measurement."
    ),
    click.option("--idle", "idle_seconds", type=float, help="Duration of the idle measurement in seconds."),
    click.option("--live", "live_seconds", type=float, help="Duration of the live measurement in seconds."),
    click.option("--live-rate", type=float, help="Commits per second of the live measurement."),
)


def extend(cli: click.Group) -> None:
    """Add the commands for developers to the command line."""
    cli.add_command(bench)
    cli.add_command(fleet)
    cli.add_command(with_stories(cli.commands["demo"]))


def _cold_starting(command: F) -> F:
    for option in reversed(_COLD_START_FLAGS):
        command = option(command)
    return command


@click.command()
@click.argument("names", nargs=-1)
@_cold_starting
def bench(names: tuple[str, ...], **cold_start: object) -> None:
    """Measure rates, times, memory and load on this machine.

    NAMES are decode, catch-up, cold-start, live, replay, diagnosis, ends, exposition, paging and scale; without any,
    all of them are run. The options are for cold-start.
    """
    from rebalance_devtools.bench import run  # noqa: PLC0415

    run(names, cold_start, click.echo)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--calm", type=click.IntRange(min=1), default=300, show_default=True, help="Number of healthy groups.")
@click.option("--sick", type=click.IntRange(0, 5), default=0, show_default=True, help="Number of sick groups.")
@click.option(
    "--duration", "duration_seconds", type=click.FloatRange(min=1), default=930, show_default=True, metavar="SECONDS"
)
@click.option("--port", type=click.IntRange(0, 65_535), default=9642, show_default=True, help="Port of the exporter.")
@click.option("--prometheus-port", type=click.IntRange(0, 65_535), default=9090, show_default=True)
def fleet(directory: Path, **options: Any) -> None:
    """Run a fleet to view in dashboards: a real Kafka, healthy and sick groups, the monitor, and a Prometheus.

    It ends by itself. DIRECTORY keeps logs and the data of Prometheus.
    """
    from rebalance_devtools import fleet as made  # noqa: PLC0415

    stop = threading.Event()
    set_on_signals(stop, (signal.SIGTERM,))
    try:
        made.run(made.FleetOptions(directory=directory.resolve(), **options), stop, _say)
    except KeyboardInterrupt:
        sys.exit(130)


def with_stories(demo: click.Command) -> click.Command:
    """Return the demo's command with the additional option `--story`."""

    def run(*, story: str | None, **options: Any) -> None:
        if story is None:
            click.get_current_context().invoke(demo, **options)
        else:
            _play(story, **options)

    return click.Command(demo.name, params=[*demo.params, _STORY], callback=run, help=f"{demo.help}\n{_STORIES}")


def _play(
    letter: str, *, duration: float | None, cure_after: float | None, kafka_version: str | None, port: int, yes: bool
) -> NoReturn:
    if duration is not None or cure_after is not None:
        raise click.UsageError("a story ends by itself: neither --duration nor --cure-after goes with --story")
    if yes:
        raise click.UsageError("a story shows no notifications: --yes does not go with --story")
    from rebalance_devtools.demo import story  # noqa: PLC0415

    _interrupt_on_signals()
    sys.exit(story.run(story.StoryOptions(letter=letter, kafka_version=kafka_version, port=port), _say))


def _interrupt_on_signals() -> None:
    """Raise KeyboardInterrupt on SIGTERM and on Ctrl-C, after a message; a second signal ends the process at once."""

    def on_signal(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        _say("stopping everything; again to end at once")
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)


def _say(line: str) -> None:
    click.echo(line, err=True)
