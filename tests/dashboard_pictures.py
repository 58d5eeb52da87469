"""Takes the pictures of the dashboards from a Grafana that shows them: `python -m dashboard_pictures URL GROUP`.

With a folder as third argument every dashboard is taken there, in two sizes and both themes, for whoever changes them;
a fourth one is added to all addresses, for example `var-datasource=fleet`.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from exporters.page.browser import Browser, starting_browser

DOCS = Path(__file__).parents[1] / "docs" / "images"
_SIZES = ((1600, 900), (1280, 720))
#: Grafana shows a bar over a panel that waits for its query; panels below the window are not asked for.
_SETTLED = """
const panels = document.querySelectorAll('[data-panelid], .panel-container').length;
const waiting = document.querySelectorAll('[aria-label="Panel loading bar"], .panel-loading').length;
return panels > 0 && waiting === 0 ? document.body.innerText.length : 0;
"""


class Picture(NamedTuple):
    """What is taken: a file's name, a dashboard, size and theme; `part`: from which to which row of pixels only."""

    name: str
    board: str
    size: tuple[int, int]
    theme: str
    part: tuple[int, int] | None = None


SHOWN = (
    Picture("dashboard-fleet", "fleet", (1600, 900), "dark"),
    # For README: the numbers, and the groups that are worst.
    Picture("dashboard-worst", "fleet", (1600, 900), "dark", (392, 848)),
    Picture("dashboard-group", "group", (1600, 1100), "light"),
)


def every_picture() -> list[Picture]:
    """List every dashboard in both sizes and themes, and the whole of each."""
    boards = ("fleet", "group", "monitor")
    tops = [
        Picture(f"{board}-{size[0]}-{theme}", board, size, theme)
        for board in boards
        for size in _SIZES
        for theme in ("dark", "light")
    ]
    return [*tops, *(Picture(f"{board}-whole", board, (1600, 3600), "dark") for board in boards)]


def take(browser: Browser, base: str, chosen: str, picture: Picture, folder: Path) -> Path:
    """Take one picture as PNG once nothing is awaited and nothing changes any more; `chosen` is part of the address."""
    width, height = picture.size
    if "from=" not in chosen:
        chosen = f"from=now-15m&to=now&{chosen}"
    address = f"{base}/d/kafka-rebalance-{picture.board}?kiosk&theme={picture.theme}&{chosen}"
    browser.show(address, width=width, height=height, dark=picture.theme == "dark")
    seen: list[int] = []

    def settled() -> bool:
        seen.append(browser.run(_SETTLED))
        return len(seen) > 8 and seen[-1] > 0 and len(set(seen[-8:])) == 1

    browser.wait(settled, seconds=180)
    top, bottom = picture.part or (0, height)
    clip = {"x": 0, "y": top, "width": width, "height": bottom - top, "scale": 1}
    shot = browser.command("Page.captureScreenshot", format="png", clip=clip)
    path = folder / f"{picture.name}.png"
    path.write_bytes(base64.b64decode(shot["data"]))
    return path


def main(arguments: list[str]) -> None:
    """Take those of the documentation or, into a folder that is named, all."""
    base, group, *rest = arguments
    folder, more = Path(rest[0]) if rest else DOCS, "".join(rest[1:])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, starting_browser(Path(profile)) as browser:
        for each in every_picture() if rest else SHOWN:
            # Of a fleet all groups are shown.
            chosen = f"var-group={quote(group, safe='')}&{more}" if each.board == "group" else more
            sys.stdout.write(f"{take(browser, base.rstrip('/'), chosen, each, folder)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
