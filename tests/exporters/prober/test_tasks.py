"""Periodic tasks, their failures and errors."""

import threading

from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.prober.tasks import EarlyCycle, ErrorLog, Task


def test_a_sentence_is_said_once_and_counted_always():
    """Again after five minutes, if it is still true."""
    now, said, metrics = [0.0], [], ProbeMetrics()
    error_log = ErrorLog(metrics, said.append, clock=lambda: now[0])
    for now[0] in (0.0, 2.0, 299.0):
        error_log.note("groups", "broken")
    assert said == ["probe: broken"]
    now[0] = 300.0
    error_log.note("groups", "broken")
    assert said == ["probe: broken"] * 2
    assert metrics.registry.get_sample_value("kafka_rebalance_monitor_probe_errors_total", {"what": "groups"}) == 4


def test_a_task_outlives_its_failures():
    """Every cycle counts; only those that worked are a success, and only failures are errors."""
    stop, said, metrics, cycles = threading.Event(), [], ProbeMetrics(), []

    def cycle() -> None:
        cycles.append(len(cycles))
        if len(cycles) == 3:
            stop.set()
        elif len(cycles) == 1:
            raise OSError("gone")

    def read(name: str) -> float | None:
        return metrics.registry.get_sample_value(f"kafka_rebalance_monitor_probe_{name}", {"what": "x"})

    Task("x", 0.01, cycle, metrics, ErrorLog(metrics, said.append)).run(stop)
    assert len(cycles) == 3
    assert said == ["probe: x: OSError: gone"]
    assert (read("cycles_total"), read("errors_total")) == (3, 1)
    assert (read("last_success_timestamp_seconds") or 0) > 0


def test_what_wakes_a_task_does_not_wait_for_its_turn():
    """An additional cycle runs, the event is cleared, and the next turn is neither sooner nor later."""
    stop, event, metrics, done = threading.Event(), threading.Event(), ProbeMetrics(), []

    def woken() -> None:
        assert not event.is_set()
        done.append("woken")
        if len(done) == 3:
            stop.set()
        else:
            event.set()
            raise OSError("gone")

    event.set()
    said: list[str] = []
    task = Task(
        "x",
        600.0,
        lambda: done.append("turn"),
        metrics,
        ErrorLog(metrics, said.append),
        early_cycle=EarlyCycle(event, woken),
    )
    task.run(stop)
    assert done == ["turn", "woken", "woken"]
    assert said == ["probe: x: OSError: gone"]


def test_sentences_about_one_thing_are_said_once():
    """In whatever words; each is counted."""
    said, metrics = [], ProbeMetrics()
    error_log = ErrorLog(metrics, said.append, clock=lambda: 0.0)
    error_log.note("interests", "a row is broken: 1", about="rows")
    error_log.note("interests", "a row is broken: 2", about="rows")
    assert said == ["probe: a row is broken: 1"]
    assert metrics.registry.get_sample_value("kafka_rebalance_monitor_probe_errors_total", {"what": "interests"}) == 2
