"""Run a command, and others one after the other beside it with a lower priority: beside.py FIRST OTHER...

FIRST has the terminal. What another one prints is shown in one piece when it has ended. Exits with 1 if any failed, and
then says which, after all have ended. An interruption ends them all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading


class Others:
    """Commands that run one after the other, each in a session of its own so that it can be ended as a whole."""

    def __init__(self, commands: list[str]) -> None:
        self.failed: list[str] = []
        self._commands = commands
        self._running: subprocess.Popen[str] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait(self) -> None:
        """Wait until all have ended."""
        self._thread.join()

    def end(self) -> None:
        """End the one that runs, and start no other."""
        self._ended.set()
        with contextlib.suppress(ProcessLookupError):
            if self._running is not None:
                os.killpg(self._running.pid, signal.SIGTERM)

    def _run(self) -> None:
        for command in self._commands:
            if self._ended.is_set():
                return
            self._running = subprocess.Popen(
                ["nice", "-n", "5", "sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            told, _ = self._running.communicate()
            if self._running.returncode:
                self.failed.append(command)
            sys.stdout.write(f"\n----- {command}\n{told}-----\n")
            sys.stdout.flush()


def main(first: str, *others: str) -> int:
    """Run all; return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    beside = Others(list(others))
    try:
        code = subprocess.run(["sh", "-c", first], check=False).returncode
        beside.wait()
    except BaseException:
        beside.end()
        raise
    failed = [*([first] if code else []), *beside.failed]
    for each in failed:
        sys.stdout.write(f"failed: {each}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
