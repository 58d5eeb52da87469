"""Limits the duration of a stop: a process that hangs while stopping reports where, and is ended.

Every step of a stop has its own deadline if the library offers one. Not all do: `SparkContext.stop` waits for the JVM
without one, and a Kafka client that is closed waits for its threads. The limit works in all cases, as long as Python's
interpreter runs at all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections import defaultdict
from pathlib import Path
from types import FrameType

from rebalance_deploy.logs import Say

#: Exit code of a process whose stop hung; EX_SOFTWARE of sysexits.h. Unfinished work is repeated at the next start, as
#: after a crash.
HANGING_STOP = 70

#: Time from the signal to the end: below the 45 s after which `up` and the configured service managers kill.
STOP_SECONDS = 42.0

_SAY_SECONDS = 1.0
_ALONE_SECONDS = 60.0
_OWN_PACKAGES = "rebalance_"


def limit_stop(stop: threading.Event, say: Say, name: str, seconds: float = STOP_SECONDS) -> None:
    """End this process and all its descendants `seconds` after `stop` was set, unless it has ended before.

    Call it in the main thread, before anything that may hang. `say` gets one line with the step that hangs.
    """
    main = threading.get_ident()

    def watch() -> None:
        stop.wait()
        threading.Event().wait(seconds)
        line = f"{name}: the stop takes longer than {seconds:g} s, in {_where(main)}; ending without waiting for it"
        # In a thread with a time-out, because writing blocks if nothing reads the output.
        saying = threading.Thread(target=say, args=(line,), daemon=True)
        saying.start()
        saying.join(_SAY_SECONDS)
        found = _descendants()
        # Once its children are gone, the hanging step continues and could end this process with another exit code.
        # A long switch interval keeps other threads from running before `os._exit`.
        sys.setswitchinterval(_ALONE_SECONDS)
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        os._exit(HANGING_STOP)

    # Started here, not in the signal handler: that may interrupt the start of a thread and wait for its lock forever.
    threading.Thread(target=watch, name="stop-limit", daemon=True).start()


def _where(thread: int) -> str:
    """Return what a thread executes: the innermost function of this project, and the innermost function of all."""
    frame: FrameType | None = sys._current_frames().get(thread)
    if frame is None:
        return "the interpreter's own end"
    stack = traceback.extract_stack(frame)
    own = [each for each in stack if _OWN_PACKAGES in each.filename]
    places = [own[-1]] if own and own[-1] is not stack[-1] else []
    return " -> ".join(f"{each.name} ({_short(each.filename)}:{each.lineno})" for each in (*places, stack[-1]))


def _short(path: str) -> str:
    return "/".join(Path(path).parts[-2:])


def _descendants() -> list[int]:
    """Return all descendants of this process; none without /proc.

    In that case they end by themselves: Spark's JVM ends when its standard input does, unless it hangs too.
    """
    children: dict[int, list[int]] = defaultdict(list)
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            children[parent].append(int(directory.name))
    found = [*children[os.getpid()]]
    for each in found:
        found += children[each]
    return found
