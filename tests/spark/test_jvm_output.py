"""Output of the JVM and its Python workers becomes log records."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys

import pytest

from rebalance_streaming.spark.jvm_output import log_line, logging_pipe
from waiting import wait_for


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        ("2026-11-23 05:00:00 ERROR TaskSetManager: Task 0 failed\n", logging.ERROR, "TaskSetManager: Task 0 failed"),
        ("2026-11-23 05:00:00 WARN Utils: hm\n", logging.WARNING, "Utils: hm"),
        ("WARNING: Using incubator modules: jdk.incubator.vector\n", logging.DEBUG, None),
        ("Starting Streaming TransformWithStateInPandas Python worker.\n", logging.DEBUG, None),
        (" Dynamic dump to file /c/classes-1.22\n", logging.DEBUG, " Dynamic dump to file /c/classes-1.22"),
        (
            "java.lang.OutOfMemoryError: Java heap space\n",
            logging.WARNING,
            "java.lang.OutOfMemoryError: Java heap space",
        ),
    ],
)
def test_a_line_becomes_a_record(line: str, level: int, message: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """With the level in the line; a line without one may be the JVM's last message."""
    with caplog.at_level(logging.DEBUG, "spark"):
        log_line(line)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("spark", level)
    assert record.getMessage() == (line.strip() if message is None else message)


def test_empty_lines_are_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Spark's workers print one after each of their lines."""
    with caplog.at_level(logging.DEBUG, "spark"):
        log_line("\n")
    assert caplog.records == []


@pytest.mark.processes
def test_what_a_process_prints_is_logged_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Even after the starting code has continued, and for any bytes."""
    with logging_pipe() as output:
        child = subprocess.Popen(
            [sys.executable, "-c", "import os; os.read(0, 1); os.write(2, b'a\\xff\\nlast')"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
        )
        pipe = os.fstat(output)
    assert child.stdin is not None
    with child, caplog.at_level(logging.DEBUG, "spark"):
        child.communicate(b"x")
        wait_for(lambda: len(caplog.records) == 2, lambda: caplog.text)
    assert [record.getMessage() for record in caplog.records] == ["a\ufffd", "last"]
    # Another thread may have got the number since.
    with contextlib.suppress(OSError):
        assert not os.path.samestat(os.fstat(output), pipe)
