"""Writes the dashboards in a form that Grafana 9.4 can show: `python -m dashboards_for_grafana_9 FOLDER`.

The dashboards are for Grafana 10 and newer. Where none is available, screenshots are taken with a 9.4 built from
source. It uses an older name for the type of table cells and cannot wrap text. It draws an annotation over every panel,
because it does not support panel filters, so annotations for some panels only are switched off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BOARDS = Path(__file__).parents[1] / "grafana" / "dashboards"
#: `custom.displayMode` of 9.4 for the type and mode in `custom.cellOptions`.
_MODES = {
    ("color-background", "basic"): "color-background-solid",
    ("color-background", "gradient"): "color-background",
    ("color-text", None): "color-text",
}


def translate(panels: Iterable[dict[str, Any]]) -> None:
    """Give table cells the older name of their type, in all panels including those in collapsed rows."""
    for panel in panels:
        translate(panel.get("panels", ()))
        for override in panel.get("fieldConfig", {}).get("overrides", ()):
            for each in override["properties"]:
                if each["id"] == "custom.cellOptions":
                    kind = each["value"]["type"], each["value"].get("mode")
                    each |= {"id": "custom.displayMode", "value": _MODES.get(kind, "auto")}


def hide_marks(board: dict[str, Any]) -> None:
    """Switch off the annotations that are for some panels only."""
    for each in board["annotations"]["list"]:
        if "filter" in each:
            each["enable"] = False


def main(folder: Path) -> None:
    """Write every dashboard."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(BOARDS.glob("*.json")):
        board = json.loads(path.read_text())
        translate(board["panels"])
        hide_marks(board)
        (folder / path.name).write_text(json.dumps(board))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
