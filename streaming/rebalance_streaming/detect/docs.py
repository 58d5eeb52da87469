"""The page that explains every diagnosis to people on call, made from the catalogue and the thresholds' defaults.

python -m rebalance_streaming.detect.docs docs/diagnoses.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from rebalance_streaming.detect.bugs import KNOWN_BUGS, KnownBug, Release
from rebalance_streaming.detect.catalogue import (
    DIAGNOSES,
    FAMILIES,
    GENERAL_THRESHOLDS,
    THRESHOLD_TEXTS,
    Diagnosis,
    in_words,
)
from rebalance_streaming.detect.config import DetectConfig, Thresholds
from rebalance_streaming.detect.verdict import CERTAIN, HINT, PLAUSIBLE, STRONG

#: What a settings file may hold about the diagnosis; shown on the page and read by its test.
SETTINGS_EXAMPLE = """\
[detect]
window_scale = 1.0        # all windows and hold times longer than a minute are multiplied by it
settle_ms = 20000         # a rebalance is judged this long after its end
ignore = ["console-consumer-.*", "spark-kafka-source-.*", "spark-executor-.*"]   # groups never judged

[detect.thresholds]       # for all groups
idle_ms = 3600000
stalled_ms = 600000

[[detect.overrides]]      # for some; where several match, the last one wins
group = "billing-.*"      # a regular expression for the whole name
thresholds = { stalled_ms = 900000, storm_rebalances = 10 }

[[detect.silences]]       # found and shown, but nobody is notified
group = "nightly-.*"
rule = "empty_group_with_lag"

[[detect.silences]]
group = "billing-eu"
rule = ".*"
until_ms = 1798761600000  # 2027-01-01 00:00 UTC; without it the silence has no end
"""

_INTRODUCTION = """\
# Diagnoses

What the monitor can find out about a consumer group, how it tells, and what to do about it. Woken up by one? Look
for its name in the [contents](#contents), read *What to do*, and come back for the rest in the morning.

This page is generated from the catalogue in `streaming/rebalance_streaming/detect/`; change the text there, then run
`python -m rebalance_streaming.detect.docs docs/diagnoses.md`.

## How a diagnosis is made

The monitor compares what up to five sources say about the same moment:

| source | is | tells |
|---|---|---|
| `log` | group records in `__consumer_offsets` | members, generations, assignments, time-outs; always there |
| `commits` | offsets in the same log | who was still working when, and how far |
| `probes` | what the coordinator answers every {probe_interval} | groups in the middle of a rebalance, end offsets |
| `client_metrics` | what the clients report of themselves | heartbeats, polls, age of the process |
| `zookeeper` | nodes of consumers that live in ZooKeeper | members and owners there |

The log alone does not hold heartbeats, poll times or refused commits. It shows that a member was lost, rarely why; each
further source separates causes that look alike without it.

A **rebalance** is judged {settle} after its end, when late commits and probes have arrived, and judged again when
something later sheds light on it, such as the same member coming back. It gets exactly one primary cause; what else
was found (lag, duplicates, who held up the others) is attached as secondary. A **condition**, such as a stalled
partition or a risky setting, needs no rebalance: it is reported as soon as it has lasted long enough, and resolved when
it is over.

A finding names its subject (members, partitions, hosts), lists its evidence with source and value, says what else was
considered and why not, and proposes settings with the formula behind the number. The text of a client's own error
message never decides: the well-known one about `max.poll.interval.ms` is printed whatever the cause was.

## Confidence

The probability that the diagnosis is right. Rules use four steps and go one down where a source is missing or clocks
disagree:

| confidence | name | means |
|---:|---|---|
| {certain} | certain | follows from what the broker guarantees, or the client itself said so |
| {strong} | strong | the evidence fits this cause and speaks against its look-alikes |
| {plausible} | plausible | the evidence fits, but a look-alike could not be excluded |
| {hint} | hint | never a primary cause on its own |

## Undetermined

`undetermined` is an answer, not an error: the rebalance was seen, and nothing shows which of several causes it had. A
confident wrong cause would send you to the wrong place. The finding lists the causes that are left and the source that
is missing, for example "no client metrics from host X". Switch that source on, and the next one can be explained.

## Severity

| severity | means |
|---|---|
| page | consumption suffers now: wake somebody. A cause alone never pages, only harm does |
| ticket | recurs, is a defect of the configuration, or a known fault of a version: deal with it in working hours |
| info | explained and harmless: shown and counted, nobody is notified |

With each diagnosis stands its usual severity, followed by when a finding of it has another.

## Changing thresholds

In the settings file (`--config`):

```toml
{example}```

Thresholds have the names and units given with each diagnosis: `_ms` are milliseconds, shares and risks are parts of 1.
A misspelt one is refused at the start.

`window_scale` is for demos, tests and replays of short recordings: with 0.1, ten minutes become one. Leave it at 1 in
production. Overrides come after it, so their values hold as they are written.

These thresholds belong to no single diagnosis:

{general}
"""

_FAULTS = """\
## Known faults by version

Where a member's version is known, from its client id or its metrics, findings advise the upgrade that removes a fault.

| client | versions | fault | may show as | fixed in | sources |
|---|---|---|---|---|---|
"""


def render() -> str:
    """Return the whole page as Markdown."""
    families = [_family(family, heading) for family, heading in FAMILIES.items()]
    return "\n".join([_introduction(), _contents(), *families, _faults()])


def write(file: Path) -> None:
    """Write the page."""
    file.write_text(render(), "utf-8")


def _introduction() -> str:
    config = DetectConfig()
    return _INTRODUCTION.format(
        probe_interval=in_words("_ms", config.probe_interval_ms),
        settle=in_words("_ms", config.settle_ms),
        certain=CERTAIN,
        strong=STRONG,
        plausible=PLAUSIBLE,
        hint=HINT,
        example=SETTINGS_EXAMPLE,
        general=_thresholds(GENERAL_THRESHOLDS),
    )


def _of(family: str) -> list[Diagnosis]:
    return [each for each in DIAGNOSES.values() if each.family == family]


def _contents() -> str:
    lines = ["## Contents", ""]
    for family, heading in FAMILIES.items():
        lines += [f"**{heading}**", "", "| diagnosis | severity | in short |", "|---|---|---|"]
        lines += [f"| [{each.id}](#{each.id}) | {each.severity} | {each.title} |" for each in _of(family)]
        lines.append("")
    lines += ["Also: [known faults by version](#known-faults-by-version).", ""]
    return "\n".join(lines)


def _family(family: str, heading: str) -> str:
    return "\n".join([f"## {heading}", "", *map(_section, _of(family))])


def _section(each: Diagnosis) -> str:
    # The heading is the bare id, which makes it the anchor.
    severity = f"Severity: {each.severity}. {_linked(each.escalates)}".rstrip()
    parts = [f"### {each.id}", f"**{each.title}.** {severity}", _linked(each.meaning)]
    parts.append(f"*What to do.* {_linked(each.action)}")
    parts.append(f"*How it is told.* {_linked(each.told_by)}")
    if each.thresholds:
        parts.append(_thresholds(each.thresholds))
    if each.sources:
        parts.append(f"*Sources:* {', '.join(map(_source, each.sources))}.")
    return "\n\n".join(parts) + "\n"


def _thresholds(names: Iterable[str]) -> str:
    rows = [f"| `{name}` | {_default(name)} | {THRESHOLD_TEXTS[name]} |" for name in names]
    return "\n".join(["| threshold | default | what it decides |", "|---|---|---|", *rows])


def _default(name: str) -> str:
    """Return a default as the settings file takes it, and in words where that differs."""
    value = getattr(Thresholds(), name)
    words = in_words(name, value)
    return f"{value:g}" if words == f"{value:g}" else f"{value} ({words})"


def _linked(text: str) -> str:
    """Make a link of every mention of a diagnosis."""
    return re.sub(r"`(\w+)`", lambda found: _link(found[1]) if found[1] in DIAGNOSES else found[0], text)


def _link(rule_id: str) -> str:
    return f"[{rule_id}](#{rule_id})"


def _source(source: str) -> str:
    if re.fullmatch(r"KAFKA-\d+", source):
        return f"[{source}](https://issues.apache.org/jira/browse/{source})"
    issue = re.fullmatch(r"([\w-]+/[\w.-]+)#(\d+)", source)
    return f"[{source}](https://github.com/{issue[1]}/issues/{issue[2]})" if issue else source


def _faults() -> str:
    return _FAULTS + "".join(_fault(each) + "\n" for each in KNOWN_BUGS)


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
