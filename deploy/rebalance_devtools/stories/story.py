"""A story: a script, and the function that performs it on a stage."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rebalance_devtools.stories.play import Hear, Play
from rebalance_devtools.stories.script import Script
from rebalance_devtools.stories.stage import Stage, find_coordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class Story(Script):
    """A script with `perform`, which runs a play from its first client to its outcome."""

    perform: Callable[[Play], None]


@contextmanager
def playing(
    story: Story,
    stage: Stage,
    *,
    cured: bool,
    seed: int,
    directory: Path,
    on_event: Hear = lambda _: None,
    metrics_topic: str | None = None,
    group: str | None = None,
    prepare: Callable[[Play], None] = lambda _: None,
) -> Iterator[Play]:
    """Perform a story on a stage to its outcome and yield the play while its clients still run; then end them.

    Unless `group` is given, the group gets a unique name, so that a stage can be used for many plays. `prepare` is
    called before the first action.
    """
    directory.mkdir(parents=True, exist_ok=True)
    parameters = story.draw(random.Random(seed))  # noqa: S311 - to be repeatable is the point
    group = group or f"{story.id.replace('_', '-')}-{'cured' if cured else 'sick'}-{uuid.uuid4().hex[:6]}"
    if story.moves_coordinator:
        group = _away_from_controller(stage, group)
    form = story.cast(parameters, cured=cured)
    play = Play(story, stage, cured, seed, directory, on_event, metrics_topic, parameters, form, group)
    try:
        prepare(play)
        story.perform(play)
        yield play
    finally:
        play.close()


def _away_from_controller(stage: Stage, group: str) -> str:
    """Return a name like `group` whose coordinator is not the controller (broker 1), so that it can be stopped."""
    names = (group, *(f"{group}-{letter}" for letter in "abcdefghij"))
    return next(name for name in names if find_coordinator(stage.bootstrap, name) != 1)
