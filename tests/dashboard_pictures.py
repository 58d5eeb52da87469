"""Takes screenshots of the dashboards from a running Grafana: `python -m dashboard_pictures URL [SITUATION]`.

Without a situation it prints how every screenshot is made, and takes none. With `--into FOLDER` it takes every
dashboard in two sizes and both themes, for working on the dashboards.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from exporters.page.browser import Browser, starting_browser

DOCS = Path(__file__).parents[1] / "docs" / "images"
_SIZES = ((1600, 900), (1280, 720))
_SHOWN_SECONDS = 900
#: Grafana shows a bar over a panel that waits for its query; it does not query panels below the window.
_SETTLED = """
const panels = document.querySelectorAll('[data-panelid], .panel-container').length;
const waiting = document.querySelectorAll('[aria-label="Panel loading bar"], .panel-loading').length;
return panels > 0 && waiting === 0 ? document.body.innerText.length : 0;
"""
#: Relative times such as "6 minutes ago" refer to the end of the time range, not to the time of the screenshot.
_CLOCK = """
const ahead = Date.now() - %d;
Date = new Proxy(Date, {
  construct: (real, given, made) => Reflect.construct(real, given.length ? given : [real.now() - ahead], made),
  get: (real, name) => name === 'now' ? () => real.now() - ahead : real[name],
});
"""


class Situation(NamedTuple):
    """What the dashboards show: a command that runs for some time beforehand, and a group to select."""

    command: str
    group: str


_FLEET = ".venv/bin/rebalance-monitor fleet FOLDER"
SITUATIONS = {
    "demo": Situation("make demo CURE_AFTER=3600", "payments-enricher"),
    "calm": Situation(_FLEET, "group-00000"),
    "storm": Situation(f"{_FLEET} --sick 5", "payments-enricher"),
}


class Picture(NamedTuple):
    """One screenshot: file name, dashboard, size and theme."""

    name: str
    situation: str
    board: str
    size: tuple[int, int]
    theme: str


SHOWN = (
    Picture("dashboard-group", "demo", "group", (1600, 1100), "light"),
    Picture("dashboard-calm", "calm", "fleet", (1280, 720), "light"),
    Picture("dashboard-fleet", "storm", "fleet", (1600, 900), "dark"),
    Picture("dashboard-monitor", "storm", "monitor", (1600, 900), "dark"),
)


def every_picture(situation: str) -> list[Picture]:
    """Return every dashboard in both sizes and themes, and a full-length screenshot of each."""
    boards = ("fleet", "group", "monitor")
    tops = [
        Picture(f"{situation}-{board}-{size[0]}-{theme}", situation, board, size, theme)
        for board in boards
        for size in _SIZES
        for theme in ("dark", "light")
    ]
    return [
        *tops,
        *(Picture(f"{situation}-{board}-whole", situation, board, (1600, 3600), "dark") for board in boards),
    ]


def describe(base: str) -> Iterable[str]:
    """Yield instructions for every screenshot of the documentation."""
    yield f"Grafana at {base} reads the Prometheus at http://localhost:9090 that each of these commands runs."
    for name, situation in SITUATIONS.items():
        yield f"\n{situation.command}\n  for 15 minutes, then: make pictures GRAFANA={base} OF={name}"
        for each in SHOWN:
            if each.situation == name:
                size = f"{each.size[0]} x {each.size[1]}"
                yield f"    {each.name}.png: {each.board}, {size}, {each.theme}"
    yield "\nGrafana 9.4 takes what this writes: PYTHONPATH=tests python -m dashboards_for_grafana_9 FOLDER"
    yield "Once FOLDER is complete, a Prometheus on its data will do, with AT=SECONDS, the end that was printed."
    yield "At last: optipng -o2 docs/images/dashboard-*.png"


def address(base: str, picture: Picture, at_seconds: int, source: str) -> str:
    """Return the kiosk-mode URL of a dashboard as of a moment; `source` is the name of the data source."""
    span = {"from": f"{1000 * (at_seconds - _SHOWN_SECONDS)}", "to": f"{1000 * at_seconds}"}
    # For a fleet all groups are selected.
    group = {"var-group": SITUATIONS[picture.situation].group} if picture.board == "group" else {}
    chosen = urlencode(span | group | ({"var-datasource": source} if source else {}))
    return f"{base}/d/kafka-rebalance-{picture.board}?kiosk&theme={picture.theme}&{chosen}"


def take(browser: Browser, where: str, picture: Picture, folder: Path) -> Path:
    """Return one screenshot as PNG, taken when all queries are done and the page no longer changes."""
    width, height = picture.size
    browser.show(where, width=width, height=height, dark=picture.theme == "dark")
    seen: list[int] = []

    def settled() -> bool:
        seen.append(browser.run(_SETTLED))
        return len(seen) > 8 and seen[-1] > 0 and len(set(seen[-8:])) == 1

    browser.wait(settled, seconds=180)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = browser.command("Page.captureScreenshot", format="png", clip=clip)
    path = folder / f"{picture.name}.png"
    path.write_bytes(base64.b64decode(shot["data"]))
    return path


def main(arguments: list[str]) -> None:
    """Print how the screenshots are made or, for a situation, take those of the documentation or all of them."""
    parser = argparse.ArgumentParser(prog="dashboard_pictures")
    parser.add_argument("grafana")
    parser.add_argument("situation", nargs="?", choices=SITUATIONS)
    parser.add_argument("--at", type=int, help="the end of the time shown, in epoch seconds; without it now")
    parser.add_argument("--into", type=Path, help="take all there are, into this folder")
    parser.add_argument("--source", default="", help="the data source's name, if it is not the default one")
    given = parser.parse_args(arguments)
    base = given.grafana.rstrip("/")
    if given.situation is None:
        sys.stdout.writelines(f"{line}\n" for line in describe(base))
        return
    pictures = every_picture(given.situation) if given.into else [p for p in SHOWN if p.situation == given.situation]
    folder = given.into or DOCS
    folder.mkdir(parents=True, exist_ok=True)
    at_seconds = given.at or int(time.time())
    with tempfile.TemporaryDirectory() as profile, starting_browser(Path(profile)) as browser:
        browser.command("Page.addScriptToEvaluateOnNewDocument", source=_CLOCK % (1000 * at_seconds))
        for each in pictures:
            where = address(base, each, at_seconds, given.source)
            sys.stdout.write(f"{take(browser, where, each, folder)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
