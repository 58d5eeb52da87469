"""Generates the page that explains every diagnosis, from the catalogue and the defaults of the thresholds.

python -m rebalance_devtools.docs.diagnoses docs/diagnoses.md streaming/rebalance_contract/diagnoses.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from rebalance_exporters.prober.config import ProbeConfig
from rebalance_streaming.detect.bugs import KNOWN_BUGS, KnownBug, Release
from rebalance_streaming.detect.catalogue import (
    DIAGNOSES,
    EXPERIMENTAL,
    FAMILIES,
    GENERAL_THRESHOLDS,
    THRESHOLD_TEXTS,
    TRAITS,
    Diagnosis,
    in_words,
    with_trait,
)
from rebalance_streaming.detect.config import DetectConfig
from rebalance_streaming.detect.thresholds import Thresholds
from rebalance_streaming.observed.confidence import SCALE

_FILES = resources.files(__package__)
#: Example of a settings file for the diagnosis; shown on the page and loaded by its test.
SETTINGS_EXAMPLE = _FILES.joinpath("settings_example.toml").read_text("utf-8")


def render() -> str:
    """Return the whole page as Markdown."""
    config, probes = DetectConfig(), ProbeConfig()
    return (
        _FILES.joinpath("diagnoses_page.md")
        .read_text("utf-8")
        .format(
            **{
                f"probe_{name}": in_words("_ms", round(1_000 * getattr(probes, f"{name}_seconds")))
                for name in ("period", "offsets", "full_list")
            },
            settle=in_words("_ms", config.settle_ms),
            **SCALE,
            all=len(DIAGNOSES),
            seen=len(DIAGNOSES) - len(EXPERIMENTAL),
            experimental=len(EXPERIMENTAL),
            example=SETTINGS_EXAMPLE,
            general=_thresholds(GENERAL_THRESHOLDS),
            contents=_contents(),
            families="\n".join(_family(family, heading) for family, heading in FAMILIES.items()),
            faults="".join(_fault(each) + "\n" for each in KNOWN_BUGS),
        )
    )


def write(file: Path) -> None:
    """Write the page."""
    file.write_text(render(), "utf-8")


def write_traits(file: Path) -> None:
    """Write the diagnoses of each trait as JSON, for readers of findings that depend only on the contract."""
    file.write_text(json.dumps({trait: sorted(with_trait(trait)) for trait in TRAITS}, indent=1) + "\n", "utf-8")


def _of(family: str) -> list[Diagnosis]:
    return [each for each in DIAGNOSES.values() if each.family == family]


def _contents() -> str:
    lines = ["## Contents", ""]
    for family, heading in FAMILIES.items():
        lines += [f"**{heading}**", "", "| diagnosis | severity | in short |", "|---|---|---|"]
        lines += [f"| [{each.id}](#{each.id}) | {_severity(each)} | {each.title} |" for each in _of(family)]
        lines.append("")
    lines += ["Also: [known faults by version](#known-faults-by-version).", ""]
    return "\n".join(lines)


def _family(family: str, heading: str) -> str:
    return "\n".join([f"## {heading}", "", *map(_section, _of(family))])


def _section(each: Diagnosis) -> str:
    # The heading is the bare id, so that it is also the anchor.
    severity = f"Severity: {_severity(each)}. {_linked(each.escalates)}".rstrip()
    parts = [f"### {each.id}", f"**{each.title}.** {severity}", _linked(each.meaning)]
    parts.append(f"*What to do.* {_linked(each.action)}")
    parts.append(f"*How it is detected.* {_linked(each.detected_by)}")
    if each.thresholds:
        parts.append(_thresholds(each.thresholds))
    if each.sources:
        parts.append(f"*Sources:* {', '.join(map(_source, each.sources))}.")
    return "\n\n".join(parts) + "\n"


def _severity(each: Diagnosis) -> str:
    if not each.experimental:
        return each.severity
    return "info, experimental" if each.severity == "info" else f"info while experimental, then {each.severity}"


def _thresholds(names: Iterable[str]) -> str:
    rows = [f"| `{name}` | {_default(name)} | {THRESHOLD_TEXTS[name]} |" for name in names]
    return "\n".join(["| threshold | default | what it decides |", "|---|---|---|", *rows])


def _default(name: str) -> str:
    """Return a default in the form of the settings file, followed by its form in words if that differs."""
    value = getattr(Thresholds(), name)
    words = in_words(name, value)
    return f"{value:g}" if words == f"{value:g}" else f"{value} ({words})"


def _linked(text: str) -> str:
    """Return a text with every mention of a diagnosis as a link."""
    return re.sub(r"`(\w+)`", lambda found: _link(found[1]) if found[1] in DIAGNOSES else found[0], text)


def _link(rule_id: str) -> str:
    return f"[{rule_id}](#{rule_id})"


def _source(source: str) -> str:
    if re.fullmatch(r"KAFKA-\d+", source):
        return f"[{source}](https://issues.apache.org/jira/browse/{source})"
    issue = re.fullmatch(r"([\w-]+/[\w.-]+)#(\d+)", source)
    return f"[{source}](https://github.com/{issue[1]}/issues/{issue[2]})" if issue else source


def _fault(bug: KnownBug) -> str:
    client = f"{bug.client} (KIP-848)" if bug.kip848 else bug.client
    effects, sources = ", ".join(map(_link, bug.effects)), ", ".join(map(_source, bug.sources))
    return f"| {client} | {_versions(bug)} | {bug.text} | {effects} | {bug.fixed_in or 'open'} | {sources} |"


def _versions(bug: KnownBug) -> str:
    bounds = [f"from {_dotted(bug.since)}"] if bug.since else []
    bounds += [f"before {_dotted(bug.below)}"] if bug.below else []
    return ", ".join(bounds) or "all"


def _dotted(release: Release) -> str:
    return ".".join(map(str, release))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    write_traits(Path(sys.argv[2]))
