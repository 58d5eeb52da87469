"""The check of commit messages that pre-commit runs."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "commit_message.py"
PROBLEMS: Callable[[str], Iterator[str]] = runpy.run_path(str(SCRIPT))["problems"]
COMPLETE = "wire: read version 4 of offset commits\n\nBrokers from 4.4 on write it.\n"


@pytest.mark.parametrize(
    "message",
    [
        COMPLETE,
        "detect, observed: count one loss once\n\nTwo sources reported it.\n\nReported-by: somebody\n",
        "# a comment\nbroker logs: read lines of 4.4\n# another\n\nTheir layout is new.\n",
        f"{COMPLETE}# ------------------------ >8 ------------------------\ndiff --git a/x b/x\n",
        'Revert "wire: read version 4 of offset commits"\n',
        "Merge branch 'main'\n",
        "fixup! wire: read version 4 of offset commits\n",
    ],
)
def test_a_complete_message_is_accepted(message: str) -> None:
    """So is what git writes itself, or a rebase replaces."""
    assert list(PROBLEMS(message)) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("Read version 4\n\nBrokers write it.\n", "begins with its area"),
        ("wire:read version 4\n\nBrokers write it.\n", "begins with its area"),
        ("\n", "begins with its area"),
        (f"wire: {'x' * 120}\n\nBrokers write it.\n", "has 126 characters"),
        ("wire: read version 4.\n\nBrokers write it.\n", "without a full stop"),
        ("wire: read version 4\nBrokers write it.\n", "the second line is empty"),
        ("wire: read version 4\n", "the body gives the reason"),
        ("wire: read version 4\n\nReported-by: somebody\n", "the body gives the reason"),
        ("wire: read version 4\n\n# a comment\n", "the body gives the reason"),
    ],
)
def test_what_a_message_lacks_is_said(message: str, problem: str) -> None:
    """One sentence for each."""
    assert any(problem in each for each in PROBLEMS(message))


def test_the_hook_fails_with_the_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gets the name of a file, as git passes it."""
    file = tmp_path / "COMMIT_EDITMSG"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(file)])
    file.write_text("wire: read version 4\n")
    with pytest.raises(SystemExit, match="1"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert capsys.readouterr().err == "commit message: the body gives the reason: why the change, not what it changes\n"
    file.write_text(COMPLETE)
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(SCRIPT), run_name="__main__")
