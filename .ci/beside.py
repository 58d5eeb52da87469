"""Run a command, and others one after the other beside it with a lower priority: beside.py FIRST OTHER...

What FIRST prints is shown as it comes, what another one prints in one piece when it has ended. Exits with 1 if any
failed, and then says which, after all have ended. The last line adds up what runs of pytest closed with. An
interruption ends them all.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter

#: How a run of pytest closes: "12 passed, 3 skipped in 4.56s", between "=" or not.
_CLOSING = re.compile(r"^=* ?((?:\d+ \w+, )*\d+ \w+) in \d[\d.]*s", re.MULTILINE)


def count_tests(printed: str) -> Counter[str]:
    """Add up the closing lines of pytest: tests by outcome."""
    found: Counter[str] = Counter()
    for closing in _CLOSING.findall(re.sub(r"\x1b\[[\d;]*m", "", printed)):
        for each in closing.split(", "):
            number, outcome = each.split()
            found["failed" if outcome.startswith("error") else outcome] += int(number)
    return found


class Others:
    """Commands that run one after the other, each in a session of its own so that it can be ended as a whole."""

    def __init__(self, commands: list[str]) -> None:
        self.failed: list[str] = []
        self.tests: Counter[str] = Counter()
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
            output, _ = self._running.communicate()
            if self._running.returncode:
                self.failed.append(command)
            self.tests += count_tests(output)
            sys.stdout.write(f"\n----- {command}\n{output}-----\n")
            sys.stdout.flush()


def run_shown(command: str) -> tuple[int, Counter[str]]:
    """Run a command and show what it prints; returns its exit code and its tests by outcome."""
    printed = bytearray()
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        while part := os.read(process.stdout.fileno(), 65_536):
            printed += part
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    return process.returncode, count_tests(printed.decode(errors="replace"))


def main(first: str, *others: str) -> int:
    """Run all; return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    beside = Others(list(others))
    try:
        code, tests = run_shown(first)
        beside.wait()
    except BaseException:
        beside.end()
        raise
    failed = [*([first] if code else []), *beside.failed]
    for each in failed:
        sys.stdout.write(f"failed: {each}\n")
    tests += beside.tests
    sys.stdout.write(f"{tests['passed']} passed, {tests['failed']} failed, {tests['skipped']} skipped\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
