"""Kafka's own applications and Spring Kafka are pinned like all other dependencies."""

from __future__ import annotations

from rebalance_deploy import jars
from rebalance_devtools.stories import apps


def test_the_lock_has_what_the_applications_are_made_of():
    """Every root is in its set at its revision, with a checksum for each jar, and the text equals the tool's output."""
    locked = jars.read_lock(apps.LOCK)
    assert {jar.set_name for jar in locked} == apps.ROOTS.keys()
    found = {(jar.set_name, jar.organisation, jar.module, jar.revision) for jar in locked}
    for name, roots in apps.ROOTS.items():
        assert {(name, each.organisation, each.module, each.revision) for each in roots} <= found
    assert all(len(jar.sha256) == 64 and jar.size_bytes > 0 for jar in locked)
    assert apps.LOCK.read_text() == apps.render_lock(locked)


def test_a_jar_has_one_sum_in_all_locks():
    """The cache has the jars of both locks, one file per name."""
    sums: dict[str, str] = {}
    for jar in (*jars.read_lock(), *jars.read_lock(apps.LOCK)):
        assert sums.setdefault(jar.file_name, jar.sha256) == jar.sha256, jar.file_name
