"""Takes the screenshots of the page for the documentation: `PYTHONPATH=tests python -m exporters.page.pictures`.

The text of each screenshot is kept beside this file, so that a test notices when the page's text changes.

With a folder as argument it takes every view, in all sizes and colours, for working on the page.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from exporters.contract_rows import NOW_MS
from exporters.page.browser import Browser, starting_browser
from exporters.page.storm import Incident, replay_incident, storm_view
from exporters.page.week import week_view
from exporters.serving import serving
from rebalance_deploy import __version__
from rebalance_exporters.state.view import View
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.client import Api
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.period_html import write_html

DOCS = Path(__file__).parents[3] / "docs" / "images"
#: The text of the documentation's screenshots.
TEXTS = Path(__file__).parent / "pictured.json"
_DESKTOP, _PHONE = (1280, 860), (360, 780)
_WEEK_MS = 7 * 86_400_000
_REPORT = "report"
#: Number of rows of the table of all groups in its screenshot; these contain no ages, which would change.
_FIRST_ROWS = 8
_GROUP = "#/groups/prod/payments-enricher"
#: A group whose consumer overruns repeatedly; its finding names a setting with its value and the recommended one.
_SICK = Incident("../families/overrun_for_long-71", "payments-capture", 150_000)
_ADVISED = f"#/groups/prod/{_SICK.group}"


class Picture(NamedTuple):
    """One screenshot: file name, address within the page, size, colours, and whether it shows the whole page."""

    name: str
    address: str = "#/"
    size: tuple[int, int] = _DESKTOP
    dark: bool = False
    whole: bool = False


SHOWN = (
    Picture("page-fleet"),
    Picture("page-group", _ADVISED, (1280, 700)),
    Picture("page-finding", _ADVISED, (1280, 1190)),
    Picture("page-phone", _ADVISED, _PHONE, dark=True),
)


def every_view(rebalance_id: str) -> list[Picture]:
    """List every view in both sizes and colours."""
    views = {"fleet": "#/", "group": _GROUP, "rebalance": f"{_GROUP}/rebalances/{rebalance_id}"}
    return [
        Picture(
            f"{view}-{'phone' if size is _PHONE else 'desktop'}-{'dark' if dark else 'light'}", where, size, dark, True
        )
        for view, where in views.items()
        for size in (_DESKTOP, _PHONE)
        for dark in (False, True)
    ]


@contextmanager
def showing_report(browser: Browser, *, dark: bool = False) -> Iterator[None]:
    """Serve the report on a week, as written by `report --html`, until the block ends."""
    with serving(week_view()) as served, tempfile.TemporaryDirectory() as written:
        access = Access("report", f"http://127.0.0.1:{served.port}")
        with Api(access) as api:
            report = api.report(since_ms=NOW_MS - _WEEK_MS)
        page = Path(written) / "report.html"
        page.write_text(write_html(report, Clock(), access), encoding="utf-8")
        browser.show(page.as_uri(), width=_DESKTOP[0], dark=dark)
        yield


def take_report(browser: Browser, folder: Path, *, dark: bool = False) -> Path:
    """Take a screenshot of the whole report."""
    with showing_report(browser, dark=dark):
        height = browser.run("return document.documentElement.scrollHeight")
        return _shoot(browser, folder / f"{_REPORT}{'-dark' if dark else ''}.png", (_DESKTOP[0], height))


def _shoot(browser: Browser, path: Path, size: tuple[int, int], *, beyond: bool = True) -> Path:
    clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
    shot = browser.command("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=beyond)
    path.write_bytes(base64.b64decode(shot["data"]))
    return path


def show(browser: Browser, base: str, picture: Picture) -> None:
    """Open the page of a screenshot and wait until it is live and complete."""
    width, height = picture.size
    browser.show(f"{base}/{picture.address}", width=width, height=height, dark=picture.dark)
    browser.wait_live()
    browser.wait_loaded()


def take(browser: Browser, base: str, picture: Picture, folder: Path) -> Path:
    """Take one screenshot as PNG."""
    show(browser, base, picture)
    width, height = picture.size
    if picture.whole:
        height = min(2600, browser.run("return document.documentElement.scrollHeight"))
    return _shoot(browser, folder / f"{picture.name}.png", (width, height), beyond=picture.whole)


def documented_view() -> View:
    """Return the view of the documentation's screenshots: the fleet in trouble, with the group to look at."""
    view = storm_view()
    view.apply(replay_incident(_SICK))
    return view


def read_texts(browser: Browser) -> dict[str, str]:
    """Return the texts of the documentation's screenshots: the first rows of all groups, and whole other pages."""
    with serving(documented_view()) as served:
        base = f"http://127.0.0.1:{served.port}"
        show(browser, base, Picture("fleet"))
        rows = browser.texts(f"#groups thead, #groups tbody tr:nth-child(-n+{_FIRST_ROWS})")
        fleet = [browser.text("#verdict"), *rows]
        show(browser, base, Picture("group", _ADVISED))
        # Loaded by itself, and not shown before it is there.
        browser.wait(lambda: browser.find(".part-advice section"))
        group = browser.run("return document.body.innerText")
    with showing_report(browser):
        report = browser.run("return document.body.innerText")
    return {"all groups": _words(*fleet), "a group": _words(group), "report": _words(report)}


def _words(*texts: str) -> str:
    """Return texts as words, without the age of the page's data and the version."""
    words = " ".join(" ".join(texts).split()).replace(__version__, "VERSION")
    return re.sub(r"data \S+ \S+ old", "data", words)


def main(arguments: list[str]) -> None:
    """Take the screenshots of the documentation, or all of them."""
    folder = Path(arguments[0]) if arguments else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    view = documented_view()
    pictures = every_view(view.rebalances(("prod", "payments-enricher"))[0].rebalance_id) if arguments else SHOWN
    with tempfile.TemporaryDirectory() as profile, starting_browser(Path(profile)) as browser:
        with serving(view) as served:
            taken = [take(browser, f"http://127.0.0.1:{served.port}", picture, folder) for picture in pictures]
        taken += [take_report(browser, folder, dark=dark) for dark in ((False, True) if arguments else (False,))]
        if not arguments:
            TEXTS.write_text(json.dumps(read_texts(browser), indent=1, ensure_ascii=False) + "\n")
    for path in taken:
        sys.stdout.write(f"{path} {path.stat().st_size // 1000} kB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
