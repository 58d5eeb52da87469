"""Writes all dashboards to files, formatted so that diffs are small."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from grafana.generate import fleet, group, monitor
from grafana.generate.board import LIVE_PAGE, build
from grafana.generate.sdk import JSONEncoder, dashboard


def render(live_page: str = LIVE_PAGE) -> Mapping[str, str]:
    """Return the JSON of every dashboard by its uid. `live_page` is the exporter's URL for browsers."""
    boards = (fleet.make(), group.make(), monitor.make())
    return {board.uid: _encode(build(board, live_page.rstrip("/"))) for board in boards}


def _encode(made: dashboard.Dashboard) -> str:
    text = json.loads(json.dumps(made, cls=JSONEncoder))
    # Without the SDK's `placement` links and annotations are visible; newer versions of Grafana put them into a menu.
    for each in (*text["links"], *text["annotations"]["list"]):
        del each["placement"]
    return json.dumps(text, indent=2, sort_keys=True) + "\n"


def write(directory: Path, live_page: str = LIVE_PAGE) -> None:
    """Write every dashboard to `directory` as UID.json."""
    directory.mkdir(parents=True, exist_ok=True)
    for uid, text in render(live_page).items():
        (directory / f"{uid}.json").write_text(text, "utf-8")
