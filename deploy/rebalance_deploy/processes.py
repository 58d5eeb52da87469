"""Starts child processes that cannot outlive this one.

Takes a command and returns a `ChildProcess` that can be queried, stopped and killed. Between this process and the
command runs a guard: this file, run as a script. Guard and parent share a socket. When the parent dies, by any signal,
the kernel closes its end, the guard reads the end of the stream and stops the command with all its children. The
kernel's parent-death signal alone is not enough: it fires when the *thread* that forked ends, and it reaches only the
direct child.

As a script this file runs isolated and without site-packages, so it may import the standard library only.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self

# Orders from the parent to the guard, one byte each, and the first word of the guard's answer.
_TERMINATE, _KILL, _RELOAD = b"T", b"K", b"H"
_STARTED, _FAILED = "started", "failed"
_PR_SET_PDEATHSIG = 1


class ChildProcess:
    """A running command with its own process group, guarded against outliving this process.

    Output goes to `log_path` (appended) or, without one, to the output of this process. Because of the separate group,
    Ctrl-C in a terminal does not reach the command, so the parent decides the order in which processes stop.
    Leaving the context terminates the command.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log_path: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        grace_seconds: float = 10,
    ) -> None:
        """Start `command`; `grace_seconds` is the time from SIGTERM to SIGKILL if this process dies.

        Raises OSError if the command cannot be started, as `subprocess` does.
        """
        self.command = tuple(str(part) for part in command)
        self.log_path = log_path
        self._socket, guards_end = socket.socketpair()
        guard = [sys.executable, "-I", "-S", __file__, str(guards_end.fileno()), str(grace_seconds), *self.command]
        with guards_end, _output(log_path) as output:
            self._guard = subprocess.Popen(
                guard,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=cwd,
                pass_fds=[guards_end.fileno()],
                start_new_session=True,
            )
        self.pid = self._await_start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    @property
    def exit_code(self) -> int | None:
        """The exit code, 128 + signal number if a signal ended the command, None while it runs."""
        return self._guard.poll()

    @property
    def is_running(self) -> bool:
        """Whether the command has not ended yet."""
        return self.exit_code is None

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Return the exit code; raises TimeoutError if the command still runs after `timeout_seconds`."""
        try:
            return self._guard.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.command[0]} still runs after {timeout_seconds} s") from None

    def request_reload(self) -> None:
        """Send SIGHUP to the command: servers reload their settings files, other programs end."""
        self._send(_RELOAD)

    def request_stop(self) -> None:
        """Send SIGTERM to the command's group without waiting, for example to stop several commands in parallel."""
        self._send(_TERMINATE)

    def terminate(self, deadline_seconds: float = 10) -> int:
        """Stop the command: SIGTERM, then SIGKILL after `deadline_seconds`. Returns the exit code."""
        self.request_stop()
        try:
            exit_code = self.wait(deadline_seconds)
        except TimeoutError:
            return self.kill()
        self._socket.close()
        return exit_code

    def kill(self) -> int:
        """Send SIGKILL to the command's group. Returns the exit code."""
        self._send(_KILL)
        exit_code = self.wait()
        self._socket.close()
        return exit_code

    def _send(self, order: bytes) -> None:
        # If the command ended by itself, its guard has ended too; there is no process left to signal.
        with contextlib.suppress(OSError):
            self._socket.sendall(order)

    def _await_start(self) -> int:
        with self._socket.makefile("r") as answers:
            word, _, detail = answers.readline().strip().partition(" ")
        if word == _STARTED:
            return int(detail)
        self._guard.wait()
        self._socket.close()
        if word == _FAILED:
            number, _, command = detail.partition(" ")
            raise OSError(int(number), os.strerror(int(number)), command)
        raise OSError(f"the guard of {self.command[0]} did not start, see {self.log_path or 'its output'}")


def _output(log_path: Path | None) -> contextlib.AbstractContextManager[IO[bytes] | None]:
    if log_path is None:
        return contextlib.nullcontext()
    log_path.parent.mkdir(parents=True, exist_ok=True)
    return log_path.open("ab")


def _guard(parent: socket.socket, grace_seconds: float, command: Sequence[str]) -> int:
    """Run `command` until it ends, the parent orders a stop or the parent is gone. Returns its exit code."""
    # A signal to the whole group must not end the guard first: it has to stop the command.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        # Safe here, unlike in the parent: the guard has one thread.
        child = subprocess.Popen(command, process_group=0, preexec_fn=_leave_with_guard)  # noqa: PLW1509
    except OSError as error:
        _answer(parent, f"{_FAILED} {error.errno} {command[0]}")
        return 127
    _answer(parent, f"{_STARTED} {child.pid}")
    _attend(child, parent, grace_seconds)
    # The leader is not reaped yet, so its number still names this group and no other.
    os.killpg(child.pid, signal.SIGKILL)
    code = child.wait()
    return 128 - code if code < 0 else code


def _attend(child: "subprocess.Popen[bytes]", parent: socket.socket, grace_seconds: float) -> None:
    """Carry out the parent's orders; return when the command has ended (unreaped) or must be killed."""
    ended = os.pidfd_open(child.pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(parent, select.POLLIN)
    timeout_ms: float | None = None
    while ready := poll.poll(timeout_ms):
        if any(number == ended for number, _ in ready):
            return
        order = _next_order(parent)
        if order == _KILL:
            return
        if order == _RELOAD:
            os.kill(child.pid, signal.SIGHUP)
            continue
        os.killpg(child.pid, signal.SIGTERM)
        if order != _TERMINATE:
            poll.unregister(parent)
            timeout_ms = grace_seconds * 1000


def _answer(parent: socket.socket, line: str) -> None:
    # If the parent is gone, `_next_order` notices.
    with contextlib.suppress(ConnectionError):
        parent.sendall(f"{line}\n".encode())


def _next_order(parent: socket.socket) -> bytes:
    """Return the parent's next order, or no byte if it is gone; an unread answer then causes a ConnectionError."""
    try:
        return parent.recv(1)
    except ConnectionError:
        return b""


def _leave_with_guard() -> None:
    """Restore the default signal handlers in the command, and have the kernel kill it if the guard is killed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    import ctypes  # noqa: PLC0415 - after the fork, beside the guard's own start

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as parent_socket:
        sys.exit(_guard(parent_socket, float(sys.argv[2]), sys.argv[3:]))
