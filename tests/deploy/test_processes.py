"""Guarded child processes: their output, exit codes and, above all, their termination."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_deploy.processes import ChildProcess
from waiting import is_alive, wait_for

pytestmark = pytest.mark.processes

# A command with a background child; it prints both process ids once both run.
FAMILY = "sleep 300 & echo $$ $!; wait"
STUBBORN = "trap '' TERM; echo $$ $$; while :; do sleep 1; done"


def reported_pids(log: Path) -> list[int]:
    """Return the process ids that the command has written."""
    wait_for(lambda: log.exists() and log.read_text().endswith("\n"), "the command to print its ids")
    return [int(word) for word in log.read_text().split()]


def test_output_and_exit_code(tmp_path: Path) -> None:
    """Both output streams reach the log, whose directory is created, and the exit code reaches the parent."""
    log = tmp_path / "made" / "log"
    with ChildProcess(["sh", "-c", "echo out; echo err >&2; exit 7"], log_path=log) as child:
        assert child.wait(120) == 7
        assert not child.is_running
    assert log.read_text() == "out\nerr\n"


def test_environment_and_directory(tmp_path: Path) -> None:
    """The command runs in the given directory with the given environment."""
    log = tmp_path / "log"
    with ChildProcess(["/bin/sh", "-c", "echo $WORD; pwd"], log_path=log, env={"WORD": "hello"}, cwd=tmp_path) as child:
        child.wait(120)
    assert log.read_text() == f"hello\n{tmp_path}\n"


def test_unknown_command_is_an_error_at_once(tmp_path: Path) -> None:
    """A missing command raises the same error as subprocess, in the parent and not in a log."""
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        ChildProcess([tmp_path / "no-such-command"])


def test_a_request_to_reload_reaches_the_command_alone(tmp_path: Path) -> None:
    """SIGHUP is sent to the command, not to its children, and neither the command nor its guard exits."""
    log = tmp_path / "log"
    script = "sleep 300 & child=$!; trap 'echo told; kill -0 $child && echo both there' HUP; echo ready; wait; wait"
    with ChildProcess(["sh", "-c", script], log_path=log) as child:
        wait_for(lambda: log.exists() and "ready" in log.read_text(), "the command's start")
        child.request_reload()
        wait_for(lambda: "both there" in log.read_text(), log.read_text)
        assert child.is_running
    assert log.read_text() == "ready\ntold\nboth there\n"


def test_terminate_ends_the_whole_family(tmp_path: Path) -> None:
    """Stopping a command also stops its children."""
    log = tmp_path / "log"
    child = ChildProcess(["sh", "-c", FAMILY], log_path=log)
    pids = reported_pids(log)
    assert child.pid == pids[0]
    assert child.terminate(deadline_seconds=120) == 128 + signal.SIGTERM
    wait_for(lambda: not any(map(is_alive, pids)), "the family is gone")


def test_a_leader_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    """When a command exits by itself, its background children are ended."""
    log = tmp_path / "log"
    with ChildProcess(["sh", "-c", "sleep 300 & echo $!; exit 0"], log_path=log) as child:
        assert child.wait(120) == 0
    (pid,) = reported_pids(log)
    wait_for(lambda: not is_alive(pid), "the background child is gone")


def test_stubborn_command_is_killed_after_the_deadline(tmp_path: Path) -> None:
    """A command that ignores SIGTERM is killed."""
    log = tmp_path / "log"
    child = ChildProcess(["sh", "-c", STUBBORN], log_path=log)
    reported_pids(log)
    with pytest.raises(TimeoutError):
        child.wait(0.01)
    assert child.terminate(deadline_seconds=0.2) == 128 + signal.SIGKILL
    assert not is_alive(child.pid)


def test_terminate_and_kill_are_repeatable(tmp_path: Path) -> None:
    """Stopping an ended process is no error and returns the same exit code."""
    child = ChildProcess(["sh", "-c", "exit 3"], log_path=tmp_path / "log")
    child.wait(120)
    assert [child.terminate(), child.kill(), child.terminate()] == [3, 3, 3]


def test_own_group_and_session(tmp_path: Path) -> None:
    """Ctrl-C in the parent's terminal reaches only the parent, which stops its children in its own order."""
    with ChildProcess(["sleep", "300"], log_path=tmp_path / "log") as child:
        assert os.getpgid(child.pid) == child.pid
        assert os.getsid(child.pid) != os.getsid(0)


@pytest.mark.parametrize("last_signal", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", [FAMILY, STUBBORN], ids=["family", "stubborn"])
def test_nothing_outlives_the_parent(tmp_path: Path, last_signal: signal.Signals, command: str) -> None:
    """However the parent ends, even by SIGKILL, the command and its children end, even if they ignore SIGTERM."""
    log = tmp_path / "log"
    # Started by a thread that ends at once: the guard must watch the process, not the thread. Children of a runner
    # started in the background ignore SIGINT.
    parent_code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import threading
from pathlib import Path
from rebalance_deploy.processes import ChildProcess
children = []
def start():
    children.append(ChildProcess(["sh", "-c", {command!r}], log_path=Path({str(log)!r}), grace_seconds=0.3))
thread = threading.Thread(target=start)
thread.start()
thread.join()
children[0].wait()
"""
    with subprocess.Popen([sys.executable, "-c", parent_code], stderr=subprocess.DEVNULL) as parent:
        pids = reported_pids(log)
        assert all(map(is_alive, pids))
        parent.send_signal(last_signal)
        parent.wait(120)
    wait_for(lambda: not any(map(is_alive, pids)), "the family is gone")


def test_nothing_outlives_a_parent_that_ends_while_it_starts_a_command(tmp_path: Path) -> None:
    """The parent may be gone before it has read that the command runs; then nothing remains either."""
    log = tmp_path / "log"
    parent_code = f"""
import signal
from pathlib import Path
from rebalance_deploy.processes import ChildProcess
ChildProcess._await_start = lambda _: signal.pause()
ChildProcess(["sh", "-c", {FAMILY!r}], log_path=Path({str(log)!r}), grace_seconds=0.3)
"""
    with subprocess.Popen([sys.executable, "-c", parent_code]) as parent:
        pids = reported_pids(log)
        parent.kill()
    wait_for(lambda: not any(map(is_alive, pids)), "the family is gone")


def test_command_does_not_outlive_a_killed_guard(tmp_path: Path) -> None:
    """If the guard itself is killed, the command ends."""
    with ChildProcess(["sleep", "300"], log_path=tmp_path / "log") as child:
        guard = int(Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(guard, signal.SIGKILL)
        wait_for(lambda: not is_alive(child.pid), "the command is gone")
