"""The limit of a stop: a process that was asked to end and hangs is ended, and says in what it hangs.

Every step of a stop has a deadline of its own where a library offers one. Not all do: `SparkContext.stop` waits for the
JVM without one, and a Kafka client that is closed waits for its threads. The limit holds for whatever else happens, as
long as Python's interpreter runs at all.
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

#: The exit code of a process whose stop hung; EX_SOFTWARE of sysexits.h. What was not finished is done again at the
#: next start, as after a crash.
HANGING_STOP = 70

#: From the signal to the end: below the 45 s after which `up` kills, as service managers are configured to.
STOP_SECONDS = 42.0

_SAY_SECONDS = 1.0
_ALONE_SECONDS = 60.0
_OWN_PACKAGES = "rebalance_"


def limit_stop(stop: threading.Event, say: Say, name: str, seconds: float = STOP_SECONDS) -> None:
    """End this process, and all that it started, `seconds` after `stop` was set, unless it has ended by then.

    To be called in the main thread, before anything that may hang. `say` gets one line with the step that hangs.
    """
    main = threading.get_ident()

    def watch() -> None:
        stop.wait()
        threading.Event().wait(seconds)
        line = f"{name}: the stop takes longer than {seconds:g} s, in {_where(main)}; ending without waiting for it"
        # Nobody may be reading what is said.
        saying = threading.Thread(target=say, args=(line,), daemon=True)
        saying.start()
        saying.join(_SAY_SECONDS)
        found = _descendants()
        # A step whose children are gone goes on, and could end this process with another code before the last line.
        # Until then this thread keeps the interpreter to itself.
        sys.setswitchinterval(_ALONE_SECONDS)
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        os._exit(HANGING_STOP)

    # Made here, not by the signal's handler: that may interrupt a thread's start, whose lock it would wait for forever.
    threading.Thread(target=watch, name="stop-limit", daemon=True).start()


def _where(thread: int) -> str:
    """Return what a thread is in: the innermost function of the project's, and what that has called."""
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
    """Return all processes below this one, to be ended; where there is no /proc they end when they miss it.

    Spark's JVM ends when its standard input does, unless it hangs too.
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
