"""A stop that hangs is ended after a limit: its step is named, and no process remains."""

import signal
import subprocess
import sys

import pytest

from rebalance_deploy.stopping import HANGING_STOP
from waiting import is_alive, wait_for

pytestmark = pytest.mark.processes

#: It has a child in a session of its own, whose own child ignores SIGTERM; `step` is the code of its stop.
PROGRAM = """
import os, signal, subprocess, sys, threading
from rebalance_deploy import stopping
from rebalance_deploy.cli import _stop_event
from rebalance_deploy.processes import ChildProcess
from rebalance_deploy.stopping import limit_stop

# Long enough for the line of a busy machine.
stopping._SAY_SECONDS = 60
stop = _stop_event()
limit_stop(stop, lambda line: print(line, file=sys.stderr, flush=True), "probe", {seconds})
child = ChildProcess(["sh", "-c", "trap '' TERM; sleep 300 & wait; wait"])
print(child.pid, flush=True)
stop.wait()
child.{step}
"""
HANG, FINISH = "wait()", "kill()"


def run(step: str, seconds: float) -> tuple[int, str, int]:
    """Run the program, stop it once its child runs, and return its exit code, output and child."""
    program = PROGRAM.format(step=step, seconds=seconds)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=600)
    return process.returncode, said, child


def test_a_step_that_hangs_is_named_and_ended_with_all_children() -> None:
    """It has its own exit code; a child that ignores SIGTERM ends, even in a session of its own."""
    # Long enough to reach the step on a busy machine.
    code, said, child = run(HANG, 15)
    assert code == HANGING_STOP
    assert said.startswith("probe: the stop takes longer than 15 s, in wait (rebalance_deploy/processes.py:")
    assert said.endswith("; ending without waiting for it\n")
    wait_for(lambda: not is_alive(child), "the child to end")


def test_a_stop_in_time_ends_as_always() -> None:
    """The limit has no effect or output; the exit code is the program's."""
    code, said, child = run(FINISH, 600)
    assert (code, said) == (0, "")
    assert not is_alive(child)
