"""The operations guide agrees with rules, pages, tables and settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from exporters.tables import every_metric
from prometheus.rig import run_tool
from rebalance_deploy.cli import cli
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.prober.metrics import ProbeMetrics
from rebalance_exporters.stream_health import StreamHealth
from rebalance_streaming.config import StreamConfig

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations.md"
TEXT = PAGE.read_text()
VALUES: Any = yaml.safe_load((ROOT / "deploy" / "helm" / "rebalance-monitor" / "values.yaml").read_text())
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()


def test_every_alert_about_the_monitor_is_there_with_its_runbook() -> None:
    """In any order; none is missing, and none is obsolete."""
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules" / "monitor.yml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    assert dict(re.findall(r"^\| (KafkaRebalance\w+) \| \[runbook\]\((\S+)\)", TEXT, re.MULTILINE)) == {
        alert: f"runbooks/{alert}.md" for alert in alerts
    }


def test_links_lead_somewhere() -> None:
    """To files, and to headings of Markdown pages."""
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        name, _, heading = target.partition("#")
        file = PAGE.parent / name
        assert file.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert heading in {each.lower().replace(" ", "-") for each in headings}, target


def test_ports_are_the_defaults() -> None:
    """Of all three."""
    reported = dict(re.findall(r"^\| (export|probe|stream) \| (\d+) \|", TEXT, re.MULTILINE))
    configs = {"export": ExportConfig(), "probe": ProbeConfig(), "stream": StreamConfig()}
    assert reported == {name: str(config.listen_port) for name, config in configs.items()}


def test_metrics_that_are_named_exist() -> None:
    """A panel with a metric that no longer exists would stay empty."""
    own = [family for health in (ProbeMetrics(), StreamHealth()) for family in health.registry.collect()]
    known = {metric.full_name for metric in every_metric()} | {family.name for family in own}
    named = set(re.findall(r"\bkafka_rebalance_monitor_\w+", TEXT))
    assert named
    assert named <= known


def test_the_sizes_are_those_that_were_measured() -> None:
    """Each number in the table is in the benchmarks."""
    (table,) = re.findall(r"^\| measured \|.*?(?=\n\n)", TEXT, re.MULTILINE | re.DOTALL)
    numbers = re.findall(r"(?<![\d.,])\d[\d,]*\.?\d*(?: %)?(?= (?:MB|MiB|s\b|%|ms|to )|(?<=%))", table)
    assert len(numbers) > 8
    assert [each for each in numbers if each not in BENCHMARKS] == []


@pytest.mark.parametrize(("component", "process"), [("stream", "stream"), ("prober", "probe"), ("exporter", "export")])
def test_the_charts_limits_leave_room_beyond_what_was_measured(component: str, process: str) -> None:
    """A fifth more memory than the largest run of the benchmarks used."""
    measured = re.search(rf"^\| memory of {process}, highest of 60 s \| ([\d,]+) MiB \|$", BENCHMARKS, re.MULTILINE)
    assert measured is not None
    limit = re.fullmatch(r"(\d+)([MG])i", VALUES[component]["resources"]["limits"]["memory"])
    assert limit is not None
    limit_mib = int(limit[1]) * {"M": 1, "G": 1024}[limit[2]]
    assert limit_mib > 1.2 * int(measured[1].replace(",", ""))


def test_its_values_are_those_of_the_chart() -> None:
    """The example of a release, with its names."""
    (example,) = re.findall(r"^```yaml\n(image:.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)

    def compare(given: Any, known: Any, place: str) -> None:
        for name, value in given.items():
            assert name in known, f"{place}.{name}"
            if isinstance(value, dict) and known[name]:
                compare(value, known[name], f"{place}.{name}")

    compare(yaml.safe_load(example), VALUES, "")


@pytest.mark.tools
def test_its_rule_is_one(tmp_path: Path) -> None:
    """It is valid for promtool."""
    (rule,) = re.findall(r"^```yaml\n(- alert:.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "clusters", "rules": yaml.safe_load(rule)}]}))
    done = run_tool("promtool", "check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_checkpoint_is_set_aside_for_a_rebuild_only() -> None:
    """One flag without the other is an error, and nothing starts."""
    outcome = CliRunner().invoke(cli, ["stream", "--set-aside"])
    assert outcome.exit_code == 2
    assert "--set-aside goes with --rebuild" in outcome.output
