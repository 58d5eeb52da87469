"""The jars of Kafka Streams, Connect and Spring Kafka, pinned separately from those that the monitor itself needs.

`python -m rebalance_devtools.stories.apps lock` resolves the roots below again and rewrites the lock.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rebalance_deploy import jars

LOCK = Path(__file__).parent / "requirements" / "jars.lock"
VERSION = "4.3.1"

ROOTS = {
    "streams": (jars.Root("org.apache.kafka", "kafka-streams", VERSION),),
    "connect": (
        jars.Root("org.apache.kafka", "connect-runtime", VERSION),
        jars.Root("org.apache.kafka", "connect-file", VERSION),
    ),
    # Without a binding for its logging facade it runs but writes no log.
    "spring": (
        jars.Root("org.springframework.kafka", "spring-kafka", "3.3.10"),
        jars.Root("org.slf4j", "slf4j-simple", "1.7.36", transitive=False),
    ),
}


def classpath(set_name: str) -> str:
    """Return an application's jars for `java -cp`, after fetching those missing from the cache. Raises UserError."""
    return jars.classpath(set_name, lock_path=LOCK)


def render_lock(locked: list[jars.LockedJar]) -> str:
    """Return the text of the lock."""
    what = "of Streams, Connect and Spring Kafka, for plays"
    return jars.render_lock(locked, what, "rebalance_devtools.stories.apps")


if __name__ == "__main__":
    if sys.argv[1:] != ["lock"]:
        sys.exit("usage: python -m rebalance_devtools.stories.apps lock")
    LOCK.write_text(render_lock(jars.lock(ROOTS)))
