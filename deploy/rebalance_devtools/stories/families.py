"""Faults that no rule was derived from, and healthy groups that look busy, to measure the accuracy of the diagnosis.

Each is a family of plays that differ in their drawn parameters: session time-outs of 6, 10 and 45 s, intervals of
heartbeats and commits between 1 and 10 s, sizes and traffic. All are shared: they run as groups of one broker, in
parallel. The families to which rules may be tuned are declared in tests/accuracy/families.toml, not here.
"""

from __future__ import annotations

import signal

from confluent_kafka.admin import ResourceType

from rebalance_devtools.stories.acting import (
    PATIENCE_SECONDS,
    afterwards,
    assignments,
    await_loss,
    await_return,
    calm,
    deploy_in_turn,
    disturb_for_a_while,
    extra_seconds,
    host_of,
    hosts_of,
    join,
    leave_in_turn,
    let_poison_kill,
    lose,
    lose_for_good,
    open_group,
    open_static,
    overrun,
    session_seconds,
    stand_still,
    start_static,
    stop_and_reset,
)
from rebalance_devtools.stories.forms import (
    COOPERATIVE,
    NEW,
    ROUND_ROBIN,
    WATCHFUL,
    confluent,
    cooperative_java,
    draw_quick,
    expecting,
    family,
    java,
    kip848,
    overrunning,
    python,
)
from rebalance_devtools.stories.network import Fault
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import (
    AIOKAFKA,
    CONFLUENT,
    KAFKA_PYTHON,
    ClientSpec,
)


def mixed(play: Play, *, with_java: bool = True) -> dict[str, ClientSpec]:
    """Return clients of different libraries for one group, by name."""
    forms = {
        "rdk": ROUND_ROBIN(play.parameters),
        "aio": python(AIOKAFKA)(play.parameters),
        "kp": python(KAFKA_PYTHON)(play.parameters),
    }
    return {**forms, "java": java(play.parameters)} if with_java else forms


# --- Network ---


def network_silent(play: Play) -> None:
    """Nothing of one client's host arrives for longer than its session; its connections survive that."""
    open_group(play, "m1", "m2", "m3", hosts=hosts_of(play, "m1", "m2", "m3"))
    disturb_for_a_while(play, ("m2",), Fault.SILENT)
    afterwards(play)


def network_cut(play: Play) -> None:
    """One client's connections end, and new ones are refused for longer than its session."""
    open_group(play, "m1", "m2", "m3", hosts=hosts_of(play, "m1", "m2", "m3"))
    disturb_for_a_while(play, ("m2",), Fault.CUT)
    afterwards(play)


def network_delay(play: Play) -> None:
    """Everything of one client is late by most of a session each way, until it was lost."""
    open_group(play, "m1", "m2", "m3", hosts=hosts_of(play, "m1", "m2", "m3"))
    disturb_for_a_while(play, ("m2",), Fault.DELAY, delay_seconds=0.8 * session_seconds(play))
    afterwards(play)


def network_host(play: Play) -> None:
    """One host with two of four clients is cut off for longer than their session."""
    hosts = {name: host_of(play, 10 if name in ("m1", "m2") else 20) for name in ("m1", "m2", "m3", "m4")}
    open_group(play, *hosts, hosts=hosts)
    disturb_for_a_while(play, ("m3", "m4"), Fault.SILENT)
    afterwards(play)


def network_loss(play: Play) -> None:
    """A third of one client's segments is lost and sent again for a minute; everybody stays."""
    open_group(play, "m1", "m2", "m3", hosts=hosts_of(play, "m1", "m2", "m3"))
    play.disturb("m2", Fault.LOSS, loss=0.3)
    play.await_seconds(60)
    play.disturb("m2", Fault.NONE)
    afterwards(play)


# --- Processes ---


def cpu_throttling(play: Play) -> None:
    """One process gets no processor for longer than its session, three times, a few seconds between."""
    open_group(play, "m1", "m2", "m3")
    for _ in range(3):
        stand_still(play, "m2")
        play.await_seconds(extra_seconds(play) + 4)
    afterwards(play)


def zombie(play: Play) -> None:
    """A process stands still with a backlog in its hands and goes on with it after others took over."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.fill(4_000, partitions=partitions)
    play.start_all(("m1", "m2"), "records", work_ms=40)
    calm(play)
    stand_still(play, "m2")
    afterwards(play)


def full_disk_dies(play: Play) -> None:
    """A client dies as soon as its disk is full; whatever starts it again does so in vain, four times."""
    open_group(play, "m1", "m2")
    disk = str(play.directory / "m3.out")
    for _ in range(5):
        play.start("m3", output=disk, disk_bytes=2_500_000)
        play.expect_end("m3")
        play.await_end("m3", "to die", session_seconds(play) + PATIENCE_SECONDS)
        play.await_seconds(extra_seconds(play))
    afterwards(play)


def full_disk_waits(play: Play) -> None:
    """A client's disk is full: it tries again for ever, polls no more, and leaves by itself."""
    open_group(play, "m1", "m3")
    play.start("m2", output=str(play.directory / "m2.out"), disk_bytes=2_500_000, waits_for_room=True)
    play.await_event("m2", "disk_full", seconds=PATIENCE_SECONDS)
    await_loss(play, play.generation)
    afterwards(play)


def crash_of_java(play: Play) -> None:
    """One of three Java clients is killed and stays away."""
    lose_for_good(play)


def poison(play: Play) -> None:
    """One record kills whoever reads it, five times; each is started again after a few seconds."""
    let_poison_kill(play, "m1", "m2", "m3")
    afterwards(play)


def overrun_for_long(play: Play) -> None:
    """One client overruns its poll limit again and again, the process the same all the time."""
    open_group(play, "m1")
    play.start(
        "m2", overrunning(play.parameters), stall_ms=play.parameters["max_poll_ms"] + play.parameters["extra_ms"]
    )
    play.await_event("m2", "records")
    calm(play)
    for _ in range(7):
        overrun(play, "m2")
        play.await_seconds(4)
    afterwards(play)


def event_loop_blocked(play: Play) -> None:
    """An aiokafka client beside librdkafka computes for longer than its session, three times."""
    stall_ms = play.parameters["session_ms"] + 2_000 + play.parameters["extra_ms"]
    open_group(play, "rdk1", "rdk2")
    join(play, "aio", form=python(AIOKAFKA)(play.parameters), stall_ms=stall_ms)
    calm(play)
    for _ in range(3):
        overrun(play, "aio")
        calm(play)
    afterwards(play)


# --- Static members ---


def static_supervised(play: Play) -> None:
    """A static member crashes three times and is back within its session each time."""
    open_static(play, "m1", "m2", "m3")
    for _ in range(3):
        before = assignments(play, "m2")
        play.kill("m2")
        play.await_seconds(1.5)
        start_static(play, "m2")
        await_return(play, "m2", before)
        calm(play)
    afterwards(play)


def static_slow_supervisor(play: Play) -> None:
    """A static member crashes twice and is started again a few seconds after its session."""
    open_static(play, "m1", "m2", "m3")
    for _ in range(2):
        generation, before = play.generation, assignments(play, "m2")
        play.kill("m2")
        await_loss(play, generation)
        play.await_seconds(extra_seconds(play))
        start_static(play, "m2")
        await_return(play, "m2", before)
        calm(play)
    afterwards(play)


def fenced_on_hosts(play: Play) -> None:
    """Two hosts run the same static member; each is started again when the other fenced it."""
    open_group(play, "m1", hosts={"m1": host_of(play, 9)})
    shared = ClientSpec(CONFLUENT, {**play.form.settings, "group.instance.id": "worker-1"})
    hosts = {"host-a": host_of(play, 11), "host-b": host_of(play, 12)}
    names = tuple(hosts)
    play.start(names[0], shared, host=hosts[names[0]])
    play.await_event(names[0], "assigned")
    for number in range(5):
        fenced, newcomer = names[number % 2], names[(number + 1) % 2]
        play.expect_end(fenced)
        play.start(newcomer, shared, host=hosts[newcomer])
        play.await_end(fenced, "to be fenced")
        play.await_seconds(extra_seconds(play) + 2)
    afterwards(play)


# --- Callbacks ---


def slow_revocation(play: Play) -> None:
    """A member takes 14 to 20 s in the callback that gives partitions up, when another one joins."""
    open_group(play, "slow", revoke_ms=13_000 + play.parameters["extra_ms"])
    join(play, "m2", patience_seconds=PATIENCE_SECONDS + session_seconds(play))
    afterwards(play)


def slow_revocation_of_java(play: Play) -> None:
    """A Java member takes 14 to 20 s in the callback that gives partitions up, when another one joins."""
    slow_revocation(play)


def slow_revocation_of_cooperative_java(play: Play) -> None:
    """A Java member takes 14 to 20 s to give up what a cooperative assignor wants of it for a newcomer."""
    slow_revocation(play)


def kip848_blocked(play: Play) -> None:
    """A KIP-848 member never returns from giving partitions up, until the broker fences it."""
    open_group(play, "slow", revoke_ms=600_000)
    play.start("waiting")
    play.await_event("waiting", "records", seconds=90)
    afterwards(play)


def kip848_crash(play: Play) -> None:
    """One of two KIP-848 members is killed; the broker waits for its session of 45 s."""
    open_group(play, "m1", "m2")
    before = assignments(play, "m1")
    play.kill("m2")
    play.await_event("m1", "assigned", times=before + 1, seconds=120)
    afterwards(play)


# --- Offsets, topics, permissions ---


def offset_reset_back(play: Play) -> None:
    """The group is stopped, set back to the beginning by a tool, and started again."""
    stop_and_reset(play, 0, waiting=0)


def offset_reset_ahead(play: Play) -> None:
    """The group is stopped, set to the end by a tool while thousands of records wait, and started again."""
    stop_and_reset(play, None, waiting=6_000)


def topic_deleted(play: Play) -> None:
    """One of two topics that the group reads is deleted."""
    extra = f"{play.topic}-more"
    play.create_topic(3, name=extra)
    open_group(play, "m1", "m2", topics=[play.topic, extra])
    generation = play.generation
    play.delete_topic(extra)
    play.await_generation(generation, PATIENCE_SECONDS)
    afterwards(play)


def growth_after_formation(play: Play) -> None:
    """The topic gets more partitions a few seconds after the group formed."""
    partitions = play.parameters["partitions"]
    play.create_topic(partitions)
    play.traffic(per_second=play.parameters["records_per_second"], partitions=partitions)
    play.start_all(("m1", "m2"), "assigned")
    play.await_seconds(extra_seconds(play))
    generation = play.generation
    play.grow_topic(partitions + 4)
    play.await_generation(generation)
    afterwards(play)


def _open_on_hosts(play: Play) -> str:
    """Open a group of three and return the host of m2."""
    hosts = hosts_of(play, "m1", "m2", "m3")
    limits = {"max.poll.interval.ms": play.parameters["max_poll_ms"]}
    open_group(play, "m1", "m2", "m3", form=ClientSpec(CONFLUENT, {**play.form.settings, **limits}), hosts=hosts)
    return hosts["m2"]


def authorisation_lost_group(play: Play) -> None:
    """One host loses the permission to read the group while its client is a member."""
    host, generation = _open_on_hosts(play), play.generation
    play.deny(ResourceType.GROUP, play.group, host)
    await_loss(play, generation)
    afterwards(play)


def authorisation_lost_topic(play: Play) -> None:
    """One host loses the permission to read the topic; its client stays a member and gets nothing."""
    host = _open_on_hosts(play)
    play.deny(ResourceType.TOPIC, play.topic, host)
    play.await_seconds(100)


# --- Mixed faults ---


def deploy_while_slow(play: Play) -> None:
    """Three instances are replaced in turn while a fourth one is busy with batches of 15 s and more."""
    names = ("m1", "m2", "m3")
    stall_ms = 14_000 + play.parameters["extra_ms"]
    open_group(play, *names, "slow", stall_ms=stall_ms)
    for name in names:
        before = len(play.events_of("slow", "stalls"))
        play.signal("slow", signal.SIGUSR1)
        play.await_event("slow", "stalls", times=before + 1)
        play.leave(name)
        join(play, name, patience_seconds=PATIENCE_SECONDS + session_seconds(play))
        calm(play)
    afterwards(play)


def two_culprits(play: Play) -> None:
    """One client is killed, and half a minute later another one overruns its poll limit."""
    form = overrunning(play.parameters)
    stall_ms = play.parameters["max_poll_ms"] + 6_000
    open_group(play, "m1", "m2", "m3", form=form, stall_ms=stall_ms)
    lose(play, "m1")
    play.await_seconds(30)
    overrun(play, "m2")
    afterwards(play)


# --- Healthy groups ---


def mixed_clients(play: Play) -> None:
    """Four clients of different libraries work, one of them leaves and comes back."""
    forms = mixed(play)
    open_group(play, *forms, forms=forms)
    play.await_seconds(30)
    play.leave("aio")
    play.await_seconds(12)
    join(play, "aio", form=forms["aio"])
    afterwards(play)


def mixed_clients_crash(play: Play) -> None:
    """Of three clients of different libraries the one of aiokafka is killed and stays away."""
    forms = mixed(play, with_java=False)
    open_group(play, *forms, forms=forms)
    lose(play, "aio")
    afterwards(play)


def deploy_cooperative(play: Play) -> None:
    """Four instances with a cooperative assignor are replaced one after the other, in order."""
    deploy_in_turn(play, "m1", "m2", "m3", "m4", settle_seconds=8)


def autoscaling(play: Play) -> None:
    """From two members to four and back, in order, as an autoscaler does once."""
    open_group(play, "m1", "m2")
    join(play, "m3", "m4")
    play.await_seconds(25)
    leave_in_turn(play, "m3", "m4", settle_seconds=3)
    afterwards(play)


def scale_in_rare_commits(play: Play) -> None:
    """Two of four members leave in order, between commits that are farther apart than a session."""
    open_group(play, "m1", "m2", "m3", "m4")
    leave_in_turn(play, "m3", "m4", settle_seconds=9)
    afterwards(play)


_RARE_COMMITS = confluent(auto_commit_interval_ms=10_000, session_timeout_ms=6_000, heartbeat_interval_ms=2_000)


_BARRIER = ("stalled_member_join_barrier",)

FAMILIES = (
    family(network_silent, expecting("network_partition", "m2")),
    family(network_cut, expecting("network_partition", "m2")),
    family(network_delay, expecting("network_partition", "m2"), draw=draw_quick),
    family(network_host, expecting("network_partition", "m3", "m4")),
    family(network_loss, expecting(""), draw=draw_quick),
    family(cpu_throttling, expecting("process_pause", "m2"), draw=draw_quick),
    family(zombie, expecting("process_pause", "m2", accepted=("zombie_member",))),
    family(full_disk_dies, expecting("crash_loop", "m3"), draw=draw_quick),
    family(full_disk_waits, expecting("poll_overrun", "m2"), form=overrunning, draw=draw_quick),
    family(crash_of_java, expecting("member_crash", "m2"), form=java),
    family(poison, expecting("poison_record"), draw=draw_quick),
    family(overrun_for_long, expecting("poll_overrun", "m2", accepted=("no_progress_loop",)), draw=draw_quick),
    family(
        event_loop_blocked,
        expecting("heartbeat_starvation", "aio", accepted=("processing_blocks_heartbeat",)),
        form=ROUND_ROBIN,
        draw=draw_quick,
    ),
    family(static_supervised, expecting("static_member_restart", "m2", accepted=("crash_loop",))),
    family(static_slow_supervisor, expecting("static_session_too_short", "m2"), draw=draw_quick),
    family(fenced_on_hosts, expecting("static_id_conflict", "host-a", "host-b")),
    family(slow_revocation, expecting("slow_rebalance_callback", "slow", accepted=_BARRIER), form=COOPERATIVE),
    family(
        slow_revocation_of_java,
        expecting("slow_rebalance_callback", "slow", accepted=_BARRIER),
        form=java,
    ),
    family(
        slow_revocation_of_cooperative_java,
        expecting("slow_rebalance_callback", "slow", accepted=_BARRIER),
        form=cooperative_java,
    ),
    family(kip848_blocked, expecting("reconciliation_stuck", "slow"), form=kip848(max_poll_interval_ms=45_000), **NEW),
    family(kip848_crash, expecting("member_crash", "m2"), form=kip848(), **NEW),
    family(offset_reset_back, expecting("offset_rewind"), draw=draw_quick),
    family(offset_reset_ahead, expecting("offset_skip"), draw=draw_quick),
    family(topic_deleted, expecting("topic_metadata_change"), form=WATCHFUL),
    family(growth_after_formation, expecting("topic_metadata_change"), form=WATCHFUL),
    family(authorisation_lost_group, expecting("join_rejected", "m2")),
    family(authorisation_lost_topic, expecting("stalled_consumer", "m2"), draw=draw_quick),
    family(deploy_while_slow, expecting("stalled_member_join_barrier", "slow", accepted=("rolling_deploy",))),
    family(two_culprits, expecting("member_crash", "m1", "m2", also=("poll_overrun",)), draw=draw_quick),
    family(mixed_clients, expecting(""), form=ROUND_ROBIN),
    family(mixed_clients_crash, expecting("member_crash", "aio"), form=ROUND_ROBIN, draw=draw_quick),
    family(deploy_cooperative, expecting("rolling_deploy"), form=COOPERATIVE),
    family(autoscaling, expecting("")),
    family(scale_in_rare_commits, expecting("scale_in", "m3", "m4"), form=_RARE_COMMITS),
)
