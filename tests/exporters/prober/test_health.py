"""Whether the prober works, and whether it gets answers."""

from __future__ import annotations

import threading

from prometheus_client import generate_latest

from rebalance_exporters.prober.health import ProbeHealth
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.tasks import ErrorLog, Task


def test_it_is_ready_once_every_task_got_answers():
    """The first task without answers is named."""
    now = [0.0]
    health = ProbeHealth(lambda: now[0])
    assert health.unready() == "starting: asking the brokers"
    assert health.unhealthy() is None
    health.expect("groups", 2)
    health.expect("offsets", 30)
    health.note("groups", answered=True)
    health.note("offsets", answered=False)
    assert health.unready() == "offsets: no answer yet"
    health.note("offsets", answered=True)
    assert health.unready() is None
    now[0] = 60.0
    assert health.unready() is None
    now[0] = 61.0
    assert health.unready() == "groups: no answer for 61 s; the prober's log says why"
    health.note("groups", answered=True)
    now[0] = 91.0
    assert health.unready() == "offsets: no answer for 91 s; the prober's log says why"


def test_rounds_that_fail_are_no_reason_for_a_restart_and_rounds_that_hang_are():
    """Brokers that are down are not the prober's fault."""
    now = [0.0]
    health = ProbeHealth(lambda: now[0])
    health.expect("groups", 2)
    for now[0] in (200.0, 400.0):
        health.note("groups", answered=False)
        assert health.unhealthy() is None
    now[0] = 700.0
    assert health.unhealthy() is None
    now[0] = 701.0
    assert health.unhealthy() == "groups: no round ended for 301 s"


def test_tasks_report_it():
    """A round that raises has ended, without answers."""
    stop, metrics, answers = threading.Event(), ProbeMetrics(), [False, True]

    def cycle() -> None:
        if not answers.pop(0):
            assert metrics.health.unready() == "x: no answer yet"
            raise OSError("gone")
        stop.set()

    Task("x", 0.01, cycle, metrics, ErrorLog(metrics, lambda _: None)).run(stop)
    assert metrics.health.unready() is None
    assert "kafka_rebalance_monitor_probe_ready 1.0" in generate_latest(metrics.registry).decode()
