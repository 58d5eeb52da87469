"""Runs the console script in this process, as a shell would."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from rebalance_deploy import cli

GOLDEN = Path(__file__).parents[2] / "golden" / "terminal"


@dataclass(frozen=True)
class Outcome:
    """The result of a command line."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *words: str) -> Outcome:
    """Run `rebalance-monitor` with these arguments; exceptions that are not user errors propagate."""
    with patch("sys.argv", ["rebalance-monitor", *words]), pytest.raises(SystemExit) as ended:
        cli.main()
    code = ended.value.code
    captured = capsys.readouterr()
    return Outcome(0 if code is None else int(code), captured.out, captured.err)


def hold_to_golden(name: str, text: str, url: str = "") -> None:
    """Compare a text with its golden file; WRITE_GOLDENS=1 writes the file instead; review it before you commit."""
    path = GOLDEN / name
    text = text.replace(f" --url {url}", "") if url else text
    if os.environ.get("WRITE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
