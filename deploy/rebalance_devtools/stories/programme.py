"""All stories by their ids."""

from __future__ import annotations

from rebalance_deploy.errors import UserError
from rebalance_devtools.stories import held_interpreter, idle_lock, join_barrier, long_batches, owner_lock
from rebalance_devtools.stories.advised import PAIRS
from rebalance_devtools.stories.applications import APPLICATIONS
from rebalance_devtools.stories.company import COMPANY
from rebalance_devtools.stories.conditions import CONDITIONS
from rebalance_devtools.stories.everyday import EVERYDAY
from rebalance_devtools.stories.families import FAMILIES
from rebalance_devtools.stories.incidents import INCIDENTS
from rebalance_devtools.stories.oncall import ONCALL
from rebalance_devtools.stories.operations import OPERATIONS
from rebalance_devtools.stories.polyglot import POLYGLOT
from rebalance_devtools.stories.production import PRODUCTION
from rebalance_devtools.stories.reported import REPORTED
from rebalance_devtools.stories.scenes import SCENES
from rebalance_devtools.stories.story import Story

#: The five incidents this project was founded on, in their letters' order.
FOUNDING = (idle_lock.FAST, join_barrier.STORY, long_batches.STORY, held_interpreter.STORY, owner_lock.STORY)

#: Other forms of the founding incidents.
VARIANTS = (
    *(idle_lock.UPGRADED, idle_lock.REAL, idle_lock.WRONG_CURE, join_barrier.WRONG_CURE, join_barrier.DEFAULT),
    *(long_batches.WRONG_CURE, long_batches.IN_SPRING, held_interpreter.WRONG_CURE),
    *(owner_lock.UPGRADED, owner_lock.WRONG_CURE),
)

#: Stories on which the accuracy of the diagnosis is measured, see tests/accuracy/families.toml.
MEASURED = (
    *FAMILIES,
    *APPLICATIONS,
    *POLYGLOT,
    *CONDITIONS,
    *COMPANY,
    *REPORTED,
    *OPERATIONS,
    *PRODUCTION,
    *EVERYDAY,
    *INCIDENTS,
    *ONCALL,
)

STORIES = {story.id: story for story in (*FOUNDING, *VARIANTS, *SCENES, *MEASURED, *PAIRS)}


def find_story(story_id: str) -> Story:
    """Return the story with this id. Raises UserError with all ids if it is unknown."""
    if story_id not in STORIES:
        raise UserError(f"there is no story named {story_id}: choose one of {', '.join(STORIES)}")
    return STORIES[story_id]
