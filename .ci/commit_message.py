"""Check the message of a commit: commit_message.py FILE. pre-commit runs it for each commit (.pre-commit-config.yaml).

CONTRIBUTING.md says what a message has: an area and a subject in the first line, an empty line, and the reason.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

#: One or more areas, as in "detect, observed: …" or "broker logs: …".
_SUBJECT = re.compile(r"[a-z0-9][a-z0-9 ,._/+-]{0,60}: \S.*")
_LONGEST_SUBJECT = 120
#: Messages that git writes, or that a rebase replaces.
_NOT_CHECKED = re.compile(r"Merge |Revert \"|(?:fixup|squash|amend)! ")
#: Below this line `git commit --verbose` puts the changes.
_SCISSORS = "# ------------------------ >8 ------------------------"
_TRAILER = re.compile(r"[A-Za-z][A-Za-z-]*: \S.*")


def problems(message: str) -> Iterator[str]:
    """Yield what a message lacks, as sentences; nothing if it is complete."""
    text = message.partition(_SCISSORS)[0]
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    subject, *rest = "\n".join(lines).strip().split("\n")
    if _NOT_CHECKED.match(subject):
        return
    if not _SUBJECT.fullmatch(subject):
        yield f"the first line begins with its area, as in `wire: read version 4 of commits`, not {subject[:60]!r}"
    if len(subject) > _LONGEST_SUBJECT:
        yield f"the first line has {len(subject)} characters, more than {_LONGEST_SUBJECT}"
    if subject.endswith("."):
        yield "the first line is a headline: it ends without a full stop"
    if rest and rest[0]:
        yield "the second line is empty, so that git tells the headline from the body"
    if not any(line and not _TRAILER.fullmatch(line) for line in rest):
        yield "the body gives the reason: why the change, not what it changes"


def main() -> int:
    """Print the problems of the message in a file; return 1 if there are any."""
    found = list(problems(Path(sys.argv[1]).read_text(encoding="utf-8")))
    for problem in found:
        sys.stderr.write(f"commit message: {problem}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
