"""Plays of clients in Go and Node.js: franz-go, Sarama and KafkaJS, alone and together with other libraries.

Families as in families.py. None of the three leaves by itself when the application does not poll: franz-go and Sarama
continue to send heartbeats, KafkaJS sends them only between records.
"""

from __future__ import annotations

import signal
from functools import partial

from rebalance_devtools.stories.acting import (
    PATIENCE_SECONDS,
    afterwards,
    assignments,
    await_loss,
    await_return,
    calm,
    deploy_in_turn,
    extra_seconds,
    join,
    leave_in_turn,
    lose,
    lose_for_good,
    open_group,
    session_seconds,
    stand_still,
)
from rebalance_devtools.stories.forms import ROUND_ROBIN, Form, draw_quick, expecting, family, java
from rebalance_devtools.stories.play import Play
from rebalance_devtools.stories.script import FRANZ_GO, KAFKAJS, SARAMA, ClientSpec, Parameters

_BARRIER = "stalled_member_join_barrier"
#: How long a Sarama client waits for the response to a join, in this play.
_READ_MS = 15_000


def foreign(library: str, **more: object) -> Form:
    """Return a form of a client in Go or Node.js; `more` are settings under the names of their programs."""

    def form(parameters: Parameters) -> ClientSpec:
        settings = {name: parameters[name] for name in ("session_ms", "heartbeat_ms", "commit_ms")}
        return ClientSpec(library, {**settings, **more})

    return form


_FRANZ_GO = foreign(FRANZ_GO, balancer="roundrobin")
_SARAMA = foreign(SARAMA, balancer="roundrobin")


def _hold_up(play: Play) -> None:
    """Make one client work on a record for a long time while another one joins."""
    open_group(play, "m1", "slow", stall_ms=16_000 + play.parameters["extra_ms"])
    play.signal("slow", signal.SIGUSR1)
    play.await_event("slow", "stalls")
    join(play, "m3", patience_seconds=2 * PATIENCE_SECONDS)
    afterwards(play)


def franz_go_blocked(play: Play) -> None:
    """A franz-go client works for 17 s and more on what it polled while another one joins; rebalances wait for it."""
    _hold_up(play)


def sarama_slow_claim(play: Play) -> None:
    """A Sarama client works for 17 s and more on a record, and does not end its claim while another one joins."""
    _hold_up(play)


def sarama_phantom(play: Play) -> None:
    """A Sarama client gives up waiting for its join before the group does, and asks again (KIP-394: by the same id)."""
    rdk = ROUND_ROBIN(play.parameters)
    stall_ms = _READ_MS + 9_000 + play.parameters["extra_ms"]
    open_group(play, "m1", "slow", form=rdk, stall_ms=stall_ms)
    play.signal("slow", signal.SIGUSR1)
    play.await_event("slow", "stalls")
    join(play, "new", patience_seconds=2 * PATIENCE_SECONDS)
    play.await_seconds(session_seconds(play) + 10)
    afterwards(play)


def kafkajs_long_record(play: Play) -> None:
    """A KafkaJS client works on a record for longer than its session, twice; it sends no heartbeats meanwhile."""
    stall_ms = play.parameters["session_ms"] + 4_000 + play.parameters["extra_ms"]
    open_group(play, "m1", "m2", stall_ms=stall_ms)
    for _ in range(2):
        generation, before = play.generation, assignments(play, "m2")
        play.signal("m2", signal.SIGUSR1)
        await_loss(play, generation)
        await_return(play, "m2", before)
        calm(play)
    afterwards(play)


def kafkajs_crash(play: Play) -> None:
    """One of three KafkaJS clients is killed and stays away."""
    lose_for_good(play)


def sarama_crash(play: Play) -> None:
    """One of three Sarama clients is killed and stays away."""
    lose_for_good(play)


def go_crash_restarted(play: Play) -> None:
    """A franz-go client beside two of librdkafka is killed, and started again long after it was removed."""
    go = _FRANZ_GO(play.parameters)
    open_group(play, "rdk1", "rdk2", "go", forms={"go": go})
    lose(play, "go")
    play.await_seconds(15 + extra_seconds(play))
    join(play, "go", form=go, patience_seconds=PATIENCE_SECONDS)
    afterwards(play)


def kafkajs_deploy(play: Play) -> None:
    """Three KafkaJS clients are replaced in turn, in order."""
    deploy_in_turn(play, "m1", "m2", "m3", settle_seconds=8, patience_seconds=PATIENCE_SECONDS)


def go_pause(play: Play) -> None:
    """A franz-go process beside one of Sarama and one of librdkafka stands still for longer than its session."""
    forms = {"go": _FRANZ_GO(play.parameters), "sarama": _SARAMA(play.parameters)}
    open_group(play, "rdk", *forms, forms=forms)
    stand_still(play, "go")
    afterwards(play)


def mixed_deploy(play: Play) -> None:
    """Clients of librdkafka, Java, franz-go and Sarama in one group are replaced in turn, in order."""
    forms = {
        "rdk": ROUND_ROBIN(play.parameters),
        "java": java(play.parameters),
        "go": _FRANZ_GO(play.parameters),
        "sarama": _SARAMA(play.parameters),
    }
    open_group(play, *forms, forms=forms)
    for name, form in forms.items():
        play.leave(name)
        play.await_seconds(2)
        join(play, name, form=form, patience_seconds=PATIENCE_SECONDS)
        play.await_seconds(8)
    afterwards(play)


def mixed_autoscaling(play: Play) -> None:
    """A group of librdkafka and franz-go clients gets two of Sarama and loses them again, in order."""
    sarama = _SARAMA(play.parameters)
    open_group(play, "rdk", "go", forms={"go": _FRANZ_GO(play.parameters)})
    join(play, "s1", "s2", form=sarama)
    play.await_seconds(25)
    leave_in_turn(play, "s1", "s2", settle_seconds=4)
    afterwards(play)


_quick = partial(family, draw=draw_quick)

POLYGLOT = (
    _quick(franz_go_blocked, expecting(_BARRIER, "slow"), form=_FRANZ_GO),
    _quick(sarama_slow_claim, expecting(_BARRIER, "slow"), form=_SARAMA),
    _quick(
        sarama_phantom,
        # In recordings with seeds below 60 the client stalled inside poll(), as in a callback.
        expecting(_BARRIER, "slow", accepted=("slow_rebalance_callback",)),
        form=foreign(SARAMA, balancer="roundrobin", read_ms=_READ_MS),
    ),
    _quick(
        kafkajs_long_record,
        expecting("processing_blocks_heartbeat", "m2"),
        form=foreign(KAFKAJS),
    ),
    _quick(kafkajs_crash, expecting("member_crash", "m2"), form=foreign(KAFKAJS)),
    _quick(sarama_crash, expecting("member_crash", "m2"), form=_SARAMA),
    _quick(go_crash_restarted, expecting("member_crash", "go"), form=ROUND_ROBIN),
    family(kafkajs_deploy, expecting("rolling_deploy"), form=foreign(KAFKAJS)),
    _quick(go_pause, expecting("process_pause", "go"), form=ROUND_ROBIN),
    family(mixed_deploy, expecting("rolling_deploy"), form=ROUND_ROBIN),
    family(mixed_autoscaling, expecting(""), form=ROUND_ROBIN),
)
