"""A story played on a stage, with a monitor or another watcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.stage import Stage, open_stage
from rebalance_devtools.stories.story import Story, playing

T = TypeVar("T")


@contextmanager
def performing(
    story: Story,
    directory: Path,
    watch: Callable[[Stage], AbstractContextManager[T]],
    *,
    cured: bool,
    seed: int,
    kafka_version: str | None = None,
    metrics_topic: str | None = None,
) -> Iterator[tuple[Play, T]]:
    """Open a stage, start the watcher, play to the outcome, and yield both while the clients still run.

    `watch` gets the running stage and returns a context manager, whose value (a monitor for example) is yielded too.
    `metrics_topic`, which must exist, is where clients can report their metrics.
    """
    version = kafka_version or story.versions[0]
    with (
        open_stage(
            directory,
            brokers=story.brokers,
            zookeeper=story.zookeeper,
            kafka_version=version,
            config=story.broker_config,
        ) as stage,
        watch(stage) as watcher,
        playing(
            story, stage, cured=cured, seed=seed, directory=directory / "clients", metrics_topic=metrics_topic
        ) as play,
    ):
        yield play, watcher


def unwatched(_: Stage) -> AbstractContextManager[None]:
    """A watcher that does nothing."""
    return nullcontext()
