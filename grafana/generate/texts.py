"""Texts for numbers and names on the dashboards, from the tables of the product."""

from __future__ import annotations

from grafana.generate import colours

from rebalance_contract import Severity, severity_rank
from rebalance_exporters.metrics.groups import STATE_CODES
from rebalance_streaming.detect.catalogue import DIAGNOSES

#: States of groups with their colours, by their exported number.
STATES = {str(code): (str(state), colours.STATES[state]) for state, code in STATE_CODES.items()}

#: What to do about each diagnosis, by its rule, on one line and without Markdown.
ACTIONS = {rule: " ".join(diagnosis.action.replace("`", "").split()) for rule, diagnosis in DIAGNOSES.items()}

#: Benefit of changing the assignor, by the name of the current one.
ASSIGNORS = {
    "range": (
        "range is eager: everybody stops at every rebalance. Move to cooperative-sticky in two rolling restarts "
        "(first both, then only the new one), or to group.protocol=consumer on Kafka 4."
    ),
    "roundrobin": (
        "roundrobin is eager and moves nearly everything at every rebalance. Move to cooperative-sticky in two rolling "
        "restarts, or to group.protocol=consumer on Kafka 4."
    ),
    "sticky": (
        "sticky keeps partitions where they are but still stops everybody. cooperative-sticky stops only what moves."
    ),
    "cooperative-sticky": "Nothing to gain here: only partitions that move stop.",
    "uniform": "Nothing to gain here: the coordinator assigns, and only partitions that move stop.",
}

#: Severities of findings with their colours, by the value of `finding_severity_code`.
SEVERITIES = {str(severity_rank(each) + 1): (each.value, colours.SEVERITIES[each]) for each in Severity}

#: Pattern for the severities above info.
ASKING = "|".join(each for each in Severity if severity_rank(each) > severity_rank(Severity.INFO))

#: Texts of empty panels, by the reason.
NO_GROUP = "not known: is the group's name right, and is the monitor ready?"
NO_PROBE = "nobody probes: run `rebalance-monitor probe`"
NO_TIMING = "no client of this group reports that: see docs/client-metrics.md"
NO_MEMBERS = "off, or no client reports that: set export.collect_members"
NO_EXPORTER = "no exporter is scraped"
NO_REBALANCE = "no rebalance in the time shown"
NO_FINDING = "nothing was found"

#: The name of a series of one group.
GROUP_NAME = "{{cluster}} / {{group}}"
NO_STREAM = "no status from the stream: is `rebalance-monitor stream` running?"
