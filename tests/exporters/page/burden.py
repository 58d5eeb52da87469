"""How long the page keeps a browser busy with many groups: `PYTHONPATH=tests python -m exporters.page.burden`.

Prints a table with the longest task, the longest frame and the time until drawn for each action, the medians of several
rounds. Browsers call a task of more than 50 ms long.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from exporters.contract_rows import PAYMENTS, WINDOWS, group_row, lag_row, stream_rows
from exporters.page.browser import Browser, starting_browser
from exporters.serving import serving
from rebalance_contract import GroupSnapshot
from rebalance_exporters.state.view import Row, View

GROUPS, CHANGED = 2_000, 200
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Burden:
    """The cost of one action in milliseconds; `task_ms` is 0 if no task was long."""

    name: str
    task_ms: float
    frame_ms: float


def fleet(groups: int = GROUPS) -> View:
    """A view of this many groups, all with windows and lag."""
    view = View(group_expiry_seconds=3600, keep_rebalances=1_000)
    view.apply([*stream_rows(), *(row for number in range(groups) for row in rows_of(number))])
    return view


def rows_of(number: int, generation: int = 3) -> Iterator[Row]:
    """Yield the rows of one group."""
    name = f"g{number:04}"
    windows = {key: replace(each, lost_partition_ms=1_000 * (number % 97)) for key, each in WINDOWS.items()}
    yield group_row(replace(PAYMENTS, group=name, generation=generation) if number % 3 else _calm(name))
    yield lag_row(group=name, windows=windows, total=number * generation)


def _calm(name: str) -> GroupSnapshot:
    return replace(GroupSnapshot("prod", name), state="Stable")


def measure_opening(browser: Browser, url: str, rounds: int = _ROUNDS) -> Burden:
    """Open the page of a fleet, and return the cost until its first rows are drawn and it is live."""
    script = browser.command("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)["identifier"]
    reported = []
    for _ in range(rounds):
        browser.show(url)
        browser.wait_live()
        browser.wait(lambda: browser.find("#groups tbody tr"))
        reported.append(browser.wait(lambda: browser.run(_SCRIPT)))
    browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    return _of("the page is opened", reported)


def measure(browser: Browser, view: View, rounds: int = _ROUNDS) -> list[Burden]:
    """Perform user actions and events on an open page of a fleet, and return the cost of each."""

    def change(round_: int) -> None:
        step = GROUPS // CHANGED
        view.apply([row for number in range(CHANGED) for row in rows_of(number * step, 10 + round_)])
        browser.wait(lambda: browser.run(_SEEN_LAG, f"g{step:04}") == str(step * (10 + round_)))

    def type_(text: str) -> Callable[[int], None]:
        return lambda _: browser.run(_TYPE, "filter", text)

    def choose(sort: str) -> Callable[[int], None]:
        return lambda _: browser.run(_CHOOSE, "sort", sort)

    def toggle(_: int) -> None:
        browser.run("document.getElementById('show-all').click()")

    doings: list[tuple[str, Callable[[int], None], Callable[[int], None]]] = [
        ("nothing: a second goes by", lambda _: None, lambda _: None),
        ("a filter is typed", type_("g19"), type_("")),
        ("another order is chosen", choose("lag"), choose("lost")),
        (f"all {GROUPS:,} rows are asked for", toggle, toggle),
    ]
    found = [_median(browser, *each, rounds=rounds) for each in doings]
    toggle(0)
    found += [
        _median(browser, f"{CHANGED} groups change, all rows shown", change, lambda _: None, rounds=rounds),
        _median(browser, "another order is chosen, all rows shown", choose("lag"), choose("lost"), rounds=rounds),
    ]
    toggle(0)
    return found


def _median(
    browser: Browser, name: str, do: Callable[[int], None], undo: Callable[[int], None], *, rounds: int
) -> Burden:
    reported = []
    for round_ in range(rounds):
        browser.run(_WATCH)
        do(round_)
        # All effects are over when nothing has been long for a while.
        reported.append(browser.wait(lambda: browser.run(_SCRIPT)))
        undo(round_)
    return _of(name, reported)


def _of(name: str, reported: list[tuple[float, float]]) -> Burden:
    return Burden(name, *(statistics.median(each[place] for each in reported) for place in (0, 1)))


#: Records tasks and frames from now on.
_WATCH = """
window.watched?.stop();
const tasks = [], frames = [];
const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((each) => each.duration)));
observer.observe({type: 'longtask'});
const begun = performance.now();
let last = begun, isOn = true;
const step = (now) => { frames.push(now - last); last = now; if (isOn) requestAnimationFrame(step); };
requestAnimationFrame((now) => { last = now; requestAnimationFrame(step); });
window.watched = {tasks, frames, begun, stop: () => { isOn = false; observer.disconnect(); }};
"""
_SCRIPT = """
if (performance.now() - watched.begun < 1500) return null;
return [Math.max(0, ...watched.tasks), Math.max(0, ...watched.frames)];
"""
_TYPE = """
const field = document.getElementById(arguments[0]);
field.value = arguments[1];
field.dispatchEvent(new Event('input'));
"""
_CHOOSE = """
const list = document.getElementById(arguments[0]);
list.value = arguments[1];
list.dispatchEvent(new Event('change'));
"""
_SEEN_LAG = """
const link = [...document.querySelectorAll('#groups a.name')].find((each) => each.textContent === arguments[0]);
return link?.closest('tr').querySelector('[data-label=Lag]').textContent;
"""


def main() -> None:
    """Print the table."""
    view = fleet()
    with tempfile.TemporaryDirectory() as profile, starting_browser(Path(profile)) as browser, serving(view) as served:
        opening = measure_opening(browser, f"http://127.0.0.1:{served.port}/")
        sys.stdout.write(f"| {GROUPS:,} groups | longest task | longest frame |\n|---|---:|---:|\n")
        for each in (opening, *measure(browser, view)):
            task = f"{each.task_ms:.0f} ms" if each.task_ms else "under 50 ms"
            sys.stdout.write(f"| {each.name} | {task} | {each.frame_ms:.0f} ms |\n")


if __name__ == "__main__":
    main()
