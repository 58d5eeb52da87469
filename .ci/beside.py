"""Run a command, and in parallel other commands one by one with lower priority: beside.py FIRST OTHER...

The output of FIRST is shown immediately, that of each other command in one piece when it has ended. After all have
ended, prints the commands that failed, and exits with 1 if there are any. The last line is the sum of the results of
all pytest runs. An interruption ends all commands.
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

#: Last line of a pytest run: "12 passed, 3 skipped in 4.56s", with or without "=" around it.
_CLOSING = re.compile(r"^=* ?((?:\d+ \w+, )*\d+ \w+) in \d[\d.]*s", re.MULTILINE)


def count_tests(printed: str) -> Counter[str]:
    """Return the number of tests by outcome, summed over the closing lines of pytest."""
    found: Counter[str] = Counter()
    for closing in _CLOSING.findall(re.sub(r"\x1b\[[\d;]*m", "", printed)):
        for each in closing.split(", "):
            number, outcome = each.split()
            found["failed" if outcome.startswith("error") else outcome] += int(number)
    return found


class Others:
    """Commands that run one after the other, each in its own session, so that it can be ended with its children."""

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
        """End the running command, and start no other."""
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
    """Run a command and show its output; returns its exit code and its tests by outcome."""
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
