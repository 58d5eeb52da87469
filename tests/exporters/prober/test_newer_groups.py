"""The prober where the log is not read, against a real broker: groups whose coordinator assigns partitions."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import ShareConsumer

from exporters.prober.probing import GroupMember, Probed, first, make_config, probing
from making_topics import create_topic
from rebalance_contract import Probe
from waiting import wait_for

pytestmark = pytest.mark.broker


@pytest.fixture
def name() -> str:
    """A unique name of groups, topics and prefixes for one test."""
    return f"probe-{uuid.uuid4().hex[:8]}"


def test_without_the_log_newer_groups_have_epochs_and_members(broker, name):
    """A KIP-848 group and a share group: each member's partitions, and an epoch that a second member raises."""
    create_topic(broker.bootstrap, name, partitions=2)
    config = make_config(broker.bootstrap, f"{name}.", full_list_seconds=0.5, reads_log=False)
    group, share_group, settings = f"{name}-kip848", f"{name}-share", {"group.protocol": "consumer"}
    share = ShareConsumer({"bootstrap.servers": broker.bootstrap, "group.id": share_group, "client.id": "s"})
    share.subscribe([name])
    with probing(config) as probed, share, GroupMember(broker.bootstrap, group, name, "c", **settings):
        _, alone = first(probed, group, "Stable", members=1)
        (member,) = alone.members
        assert (alone.type, alone.assignor, member.client_id) == ("consumer", "uniform", "c")
        assert member.partitions == {name: [0, 1]}
        assert member.member_epoch == alone.group_epoch
        with GroupMember(broker.bootstrap, group, name, "d", **settings):
            together = wait_for(lambda: shared_out(probed, group), lambda: probed.of(group))
        assert together.group_epoch > alone.group_epoch
        assert [each.partitions for each in together.members] in (
            [{name: [0]}, {name: [1]}],
            [{name: [1]}, {name: [0]}],
        )
        shared = wait_for(lambda: polled(share, probed, share_group), lambda: probed.of(share_group))
        assert shared.type == "share"
        assert shared.group_epoch >= 1
        assert [(each.client_id, each.partitions) for each in shared.members] == [("s", {name: [0, 1]})]


def shared_out(probed: Probed, group: str) -> Probe | None:
    """The first probe of a stable group with two members that have partitions."""
    found = (each for each in probed.of(group) if each.state == "Stable" and each.members)
    return next((each for each in found if len(each.members) == 2 and all(m.partitions for m in each.members)), None)


def polled(consumer: ShareConsumer, probed: Probed, group: str) -> Probe | None:
    """Poll, and return the first probe of the group with a member that has partitions."""
    consumer.poll(0.2)
    return next((each for each in probed.of(group) if each.members and each.members[0].partitions), None)
