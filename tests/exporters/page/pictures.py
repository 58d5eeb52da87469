"""Takes the pictures of the page that the documentation shows: `PYTHONPATH=tests python -m exporters.page.pictures`.

With a folder as argument every view is taken there, in all sizes and colours, for whoever changes the page.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from exporters.contract_rows import NOW_MS
from exporters.page.browser import Browser, starting_browser
from exporters.page.storm import Incident, replay_incident, storm_view
from exporters.page.week import week_view
from exporters.serving import serving
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.client import Api
from rebalance_exporters.terminal.figures import Clock
from rebalance_exporters.terminal.period_html import write_html

DOCS = Path(__file__).parents[3] / "docs" / "images"
_DESKTOP, _PHONE = (1280, 860), (360, 780)
_WEEK_MS = 7 * 86_400_000
_GROUP = "#/groups/prod/payments-enricher"
#: A group whose consumer overruns again and again; its finding has a setting with its value and the one to set.
_SICK = Incident("../families/overrun_for_long-71", "payments-capture", 150_000)
_ADVISED = f"#/groups/prod/{_SICK.group}"


class Picture(NamedTuple):
    """What is taken: a file's name, the address within the page, size, colours, and whether all of it or its top."""

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


def take_report(browser: Browser, folder: Path, *, dark: bool = False) -> Path:
    """Take a picture of the report on a week, as `report --html` writes it."""
    with serving(week_view()) as served, tempfile.TemporaryDirectory() as written:
        access = Access("report", f"http://127.0.0.1:{served.port}")
        with Api(access) as api:
            told = api.report(since_ms=NOW_MS - _WEEK_MS)
        page = Path(written) / "report.html"
        page.write_text(write_html(told, Clock(), access), encoding="utf-8")
        browser.show(page.as_uri(), width=_DESKTOP[0], dark=dark)
        height = browser.run("return document.documentElement.scrollHeight")
        return _shoot(browser, folder / f"report{'-dark' if dark else ''}.png", (_DESKTOP[0], height))


def _shoot(browser: Browser, path: Path, size: tuple[int, int], *, beyond: bool = True) -> Path:
    clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
    shot = browser.command("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=beyond)
    path.write_bytes(base64.b64decode(shot["data"]))
    return path


def take(browser: Browser, base: str, picture: Picture, folder: Path) -> Path:
    """Take one picture, as PNG."""
    width, height = picture.size
    browser.show(f"{base}/{picture.address}", width=width, height=height, dark=picture.dark)
    browser.wait_live()
    browser.wait_loaded()
    if picture.whole:
        height = min(2600, browser.run("return document.documentElement.scrollHeight"))
    return _shoot(browser, folder / f"{picture.name}.png", (width, height), beyond=picture.whole)


def main(arguments: list[str]) -> None:
    """Take the pictures of the documentation, or all there are."""
    folder = Path(arguments[0]) if arguments else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    view = storm_view()
    view.apply(replay_incident(_SICK))
    pictures = every_view(view.rebalances(("prod", "payments-enricher"))[0].rebalance_id) if arguments else SHOWN
    with tempfile.TemporaryDirectory() as profile, serving(view) as served, starting_browser(Path(profile)) as browser:
        taken = [take(browser, f"http://127.0.0.1:{served.port}", picture, folder) for picture in pictures]
        taken += [take_report(browser, folder, dark=dark) for dark in ((False, True) if arguments else (False,))]
        for path in taken:
            sys.stdout.write(f"{path} {path.stat().st_size // 1000} kB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
