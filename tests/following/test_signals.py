"""Signals set events whatever the main thread does meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from rebalance_kafka.signals import set_on_signals
from waiting import wait_for

_SIGNAL = signal.SIGUSR1


@pytest.fixture(autouse=True)
def handler_before() -> Iterator[None]:
    """Restore the handler."""
    before = signal.getsignal(_SIGNAL)
    yield
    signal.signal(_SIGNAL, before)


def test_a_signal_that_interrupts_a_wait_sets_the_event():
    """`Event.wait` holds the event's lock when it begins: a handler that set the event would wait for it forever."""
    stop = threading.Event()
    set_on_signals(stop, (_SIGNAL,))
    with vars(stop)["_cond"]:
        os.kill(os.getpid(), _SIGNAL)
    assert stop.wait(60)


def test_each_signal_sets_the_event_again():
    """An event to reload is cleared when its signal was obeyed."""
    reload = threading.Event()
    set_on_signals(reload, (_SIGNAL,))
    for _ in range(3):
        os.kill(os.getpid(), _SIGNAL)
        assert reload.wait(60)
        reload.clear()


def test_once_leaves_the_second_signal_its_default_effect():
    """Which would end the process."""
    stop = threading.Event()
    set_on_signals(stop, (_SIGNAL,), once=True)
    os.kill(os.getpid(), _SIGNAL)
    assert stop.wait(60)
    assert signal.getsignal(_SIGNAL) == signal.SIG_DFL


def test_what_it_returns_restores_the_handler_and_ends_its_thread():
    """A server that is started again in the same process leaves nothing behind."""
    handler, threads = signal.getsignal(_SIGNAL), waiting_threads()
    restore = set_on_signals(threading.Event(), (_SIGNAL,))
    assert signal.getsignal(_SIGNAL) != handler
    assert len(waiting_threads() - threads) == 1
    restore()
    assert signal.getsignal(_SIGNAL) == handler
    wait_for(lambda: waiting_threads() <= threads, "the end of the thread", 60)


def waiting_threads() -> set[threading.Thread]:
    """Return the threads that set events."""
    return {each for each in threading.enumerate() if each.name == "signals"}
