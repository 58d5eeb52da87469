"""The rules, checked by promtool, and their consistency with the metrics, the catalogue and the runbooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporters.tables import every_metric
from prometheus.examples import examples, put
from prometheus.rig import DEPLOY, RULES, run_tool
from rebalance_contract import (
    WINDOWS_MS,
    GroupState,
    GroupType,
    RebalanceOutcome,
    RebalanceReason,
    Severity,
    SilenceKind,
)
from rebalance_deploy import observability
from rebalance_deploy.errors import UserError
from rebalance_streaming.detect.catalogue import DIAGNOSES, with_trait
from rebalance_streaming.engine.engine import DROPPED_REPORT

RULE_FILES = sorted(RULES.glob("*.yml"))
TEST_FILES = sorted((DEPLOY / "prometheus" / "tests").glob("*.yml"))
RUNBOOKS = DEPLOY.parent / "docs" / "runbooks"

#: The documented `for` time of the condition, by alert and severity.
PROMISED = {
    ("KafkaRebalanceGroupStalled", "critical"): "30s",
    ("KafkaRebalanceTimeHigh", "critical"): "5m",
    ("KafkaRebalanceStorm", "warning"): "2m",
    ("KafkaRebalanceStorm", "critical"): "2m",
    ("KafkaRebalanceFleetStorm", "critical"): "2m",
    ("KafkaRebalanceOutage", "critical"): "0m",
    ("KafkaRebalanceGroupInOutage", "info"): "0m",
    ("KafkaRebalanceFinding", "critical"): "0m",
    ("KafkaRebalanceFinding", "warning"): "0m",
    ("KafkaRebalanceHeartbeatHeadroomLow", "warning"): "1m",
    ("KafkaRebalancePollHeadroomLow", "warning"): "1m",
    ("KafkaRebalanceSlow", "warning"): "15m",
    ("KafkaRebalanceGroupEmpty", "warning"): "5m",
    ("KafkaRebalanceAssignmentSkew", "info"): "30m",
    ("KafkaRebalanceIdleMembers", "info"): "30m",
    ("KafkaRebalanceMonitorBehind", "critical"): "3m",
    ("KafkaRebalanceMonitorDown", "critical"): "3m",
    ("KafkaRebalanceMonitorQueryFailing", "warning"): "1m",
    ("KafkaRebalanceMonitorProberSilent", "warning"): "1m",
    ("KafkaRebalanceMonitorQuarantine", "warning"): "1m",
    ("KafkaRebalanceMonitorRecordsLost", "warning"): "1m",
    ("KafkaRebalanceWatchdog", "none"): "0m",
}
ALERTS = sorted({name for name, _ in PROMISED})
#: The lines of the page, and the links below it.
ANNOTATIONS = {"summary", "cause", "since", "impact", "scope", "now", "explain_url", "dashboard_url", "runbook_url"}
#: The additional lines of an alert about groups: the culprit, and the setting with its current and proposed value.
CULPRIT = {"who", "change"}
LABELS = {"cluster", "group", "severity", "team"}


def read_yaml(file: Path) -> Any:
    """Return the content of a file, parsed by libyaml if PyYAML has it: a quarter of the time."""
    return yaml.load(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def all_rules() -> list[dict[str, Any]]:
    """Return the rules of all files in order."""
    return [rule for file in RULE_FILES for group in read_yaml(file)["groups"] for rule in group["rules"]]


def alert_rules() -> list[dict[str, Any]]:
    """Return the alerting rules."""
    return [rule for rule in all_rules() if "alert" in rule]


def severities(rule: dict[str, Any]) -> list[str]:
    """Return the severities of an alerting rule; a template has two, page first."""
    label: str = rule["labels"]["severity"]
    template = re.fullmatch(r'\{\{ if eq \$labels.severity "page" \}\}(\w+)\{\{ else \}\}(\w+)\{\{ end \}\}', label)
    return [label] if template is None else [*template.groups()]


def seconds(duration: str) -> int:
    """Return the seconds of a duration with one unit."""
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


@cache
def promtool_cases() -> list[dict[str, Any]]:
    """Return the cases of all files."""
    return [case for file in TEST_FILES for case in read_yaml(file)["tests"]]


def expectations(alert: str) -> Iterator[list[bool]]:
    """Yield per promtool case, in order of time, whether the alert is expected to fire."""
    for case in promtool_cases():
        asked = [each for each in case.get("promql_expr_test", ()) if f'alertname="{alert}"' in each["expr"]]
        if asked:
            yield [bool(each["exp_samples"]) for each in asked]


@pytest.mark.tools
def test_promtool_accepts_rules_and_configuration() -> None:
    """Prometheus would load the shipped files."""
    for what, files in (("rules", RULE_FILES), ("config", [DEPLOY / "prometheus" / "prometheus.yml"])):
        done = run_tool("promtool", "check", what, *files)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.tools
@pytest.mark.parametrize("file", TEST_FILES, ids=lambda file: file.stem)
def test_promtool_cases(file: Path) -> None:
    """Every rule fires, stays silent and resolves when it should, with the expected texts."""
    done = run_tool("promtool", "test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", [name for name in ALERTS if name != "KafkaRebalanceWatchdog"])
def test_every_alert_has_its_cases(alert: str) -> None:
    """Every alert has a case in which it fires and resolves, and a look-alike in which it stays silent."""
    cases = list(expectations(alert))
    assert any(any(case) and not case[0] and not case[-1] for case in cases), "fires and resolves"
    assert any(not any(case) for case in cases), "stays silent"


def test_alerts_are_those_promised() -> None:
    """Alerts, severities and hold times are those of the table in the documentation."""
    found = [((rule["alert"], each), rule.get("for", "0m")) for rule in alert_rules() for each in severities(rule)]
    assert dict(found) == PROMISED
    assert len(found) == len(PROMISED)


def test_labels_never_change_while_an_alert_fires() -> None:
    """Rules only add the severity; page.yml checks label by label that nothing else of their expressions remains."""
    assert all(set(rule["labels"]) - {"about"} == {"severity"} for rule in alert_rules())
    assert {rule["labels"].get("about", "") for rule in alert_rules()} == {""}, "an empty label is none"
    pages = read_yaml(DEPLOY / "prometheus" / "tests" / "page.yml")["tests"]
    expected = [
        (each["alertname"], alert["exp_labels"])
        for case in pages
        for each in case.get("alert_rule_test", ())
        for alert in each["exp_alerts"]
    ]
    assert {name for name, _ in expected} == set(ALERTS)
    assert all(set(labels) <= LABELS for _, labels in expected)


def test_every_alert_fills_the_page() -> None:
    """No line of the page is missing, and the runbook is the alert's own."""
    for rule in alert_rules():
        lines, name = rule["annotations"], rule["alert"]
        assert f"/{name}.md" in lines["runbook_url"]
        about_groups = CULPRIT if "Monitor" not in name else set()
        assert set(lines) == ANNOTATIONS | about_groups or name == "KafkaRebalanceWatchdog"


def test_blindness_is_reported_before_silence_is_taken_for_the_end() -> None:
    """Every alert that notifies is held until a dead monitor has been noticed and mutes it."""
    noticed = max(seconds(hold) for (name, _), hold in PROMISED.items() if "Monitor" in name)
    data = [rule for rule in alert_rules() if not re.search("Monitor|Watchdog", rule["alert"])]
    held = {rule["alert"]: seconds(rule.get("keep_firing_for", "0s")) for rule in data if severities(rule) != ["info"]}
    assert all(hold > noticed + 60 for hold in held.values()), held


def test_rules_use_what_the_exporter_exports() -> None:
    """Every metric, and every label matched or aggregated by, is in the exporter's table or in a rule's record."""
    exported = {metric.full_name: {*metric.labels, "cluster", "group", "instance", "job"} for metric in every_metric()}
    for histogram in [name for name in exported if name.endswith("duration_seconds")]:
        exported |= {histogram + end: exported[histogram] | {"le"} for end in ("_bucket", "_count", "_sum")}
    text = "".join(file.read_text() for file in RULE_FILES)
    used = set(re.findall(r"\bkafka_rebalance_[a-z0-9_]+", text))
    assert used <= set(exported), sorted(used - set(exported))
    for name, matchers in re.findall(r"\b(kafka_rebalance_[a-z0-9_]+)\{([a-z_]+[=!][^{}%]*)\}", text):
        wanted = set(re.findall(r'([a-z_]+)(?:=|!=|=~|!~)"', matchers))
        assert wanted <= exported[name], (name, wanted - exported[name])


#: Possible values of labels from the contract or the catalogue.
WORDS: dict[str, set[str]] = {
    "rule": {*DIAGNOSES},
    "severity": {*Severity},
    "window": {*WINDOWS_MS},
    "state": {*GroupState},
    "type": {*GroupType},
    "outcome": {*RebalanceOutcome},
    "reason": {*RebalanceReason},
    "stage": {DROPPED_REPORT[0]},
    # The subjects of alerts that rules select by name.
    "about": {Severity.PAGE},
    # The HELP text lists them all.
    "kind": {*SilenceKind}
    | {
        word
        for each in every_metric()
        if each.full_name == "kafka_rebalance_monitor_diagnosis_groups"
        for word in re.findall(r"`(\w+)`", each.help)
    },
}
#: Labels with external names, which a rule omits if they are empty.
NAMES = {"cluster", "group", "owner", "coordinator", "job", "parameter", "who"}


def test_rules_use_words_that_the_monitor_says() -> None:
    """Every diagnosis, severity, window or state in a rule exists; a label with other values is a name."""
    matchers = [pair for file in RULE_FILES for pair in _matchers(file.read_text())]
    asked = {(label, word) for label, words in matchers if label not in NAMES for word in words.split("|")}
    assert {label for label, _ in asked} >= {"rule", "severity", "window"}
    assert {(label, word) for label, word in asked if word not in WORDS.get(label, ())} == set()


def test_every_severity_of_a_finding_is_notified_in_its_way() -> None:
    """A page pages, a ticket warns, and informational findings cause no alert."""
    reported = {
        severity: alert_severity
        for rule in alert_rules()
        for asked in re.findall(r'kafka_rebalance_finding_active{severity=~"([a-z|]+)"}', rule["expr"])
        for severity, alert_severity in zip(asked.split("|"), severities(rule), strict=True)
    }
    assert reported == {Severity.PAGE: "critical", Severity.TICKET: "warning"}
    assert {*Severity} - {*reported} == {Severity.INFO}


def _matchers(text: str) -> Iterator[tuple[str, str]]:
    """Yield label and value of each matcher in a file's expressions, including templates but not comments."""
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for selector in re.findall(r"\bkafka_rebalance[a-z0-9_:]*\{([^{}]*)\}", text):
        yield from re.findall(r'\b([a-z_]+)(?:=~|!~|!=|=)"([^"]*)"', selector)


def test_records_that_are_used_are_recorded() -> None:
    """No rule uses a record that does not exist, except overrides, which are listed with their default."""
    text = "".join(file.read_text() for file in RULE_FILES)
    used = set(re.findall(r"\bkafka_rebalance:[a-z0-9_:]+", text))
    recorded = {rule["record"] for rule in all_rules() if "record" in rule}
    overrides = {name.rpartition(":")[2] for name in used if ":override:" in name} - {""}
    documented = set(re.findall(r"^# ([a-z_]+) {2,}", (RULES / "overrides.yml").read_text(), re.MULTILINE))
    assert {name for name in used if ":override:" not in name} <= recorded
    assert overrides == documented


@pytest.mark.tools
def test_overrides_as_documented(tmp_path: Path) -> None:
    """The uncommented example of overrides.yml raises a threshold for one group and mutes another."""
    text = (RULES / "overrides.yml").read_text()
    example = [line.removeprefix("#") for line in text.splitlines() if re.match(r"#   (- record|  expr):", line)]
    assert len(example) == 4
    (tmp_path / "overrides.yml").write_text(
        text.replace("rules: []", "rules:\n" + "\n".join("    " + e for e in example))
    )
    case = read_yaml(Path(__file__).parent / "overrides.yml")
    case["rule_files"] = [str(RULES / "kafka-rebalance.yml"), str(tmp_path / "overrides.yml")]
    (tmp_path / "test.yml").write_text(yaml.safe_dump(case))
    done = run_tool("promtool", "test", "rules", tmp_path / "test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_runbook_per_alert() -> None:
    """Every alert has a page that names it, and every page is about an existing alert."""
    pages = {page.stem for page in RUNBOOKS.glob("*.md")} - {"README"}
    assert pages == set(ALERTS)
    index = (RUNBOOKS / "README.md").read_text()
    for alert in ALERTS:
        assert (RUNBOOKS / f"{alert}.md").read_text().startswith(f"# {alert}\n")
        assert f"({alert}.md)" in index


def rules_named(record: str) -> list[set[str]]:
    """Return the diagnoses in each selector of a recording rule."""
    text = (RULES / "kafka-rebalance.yml").read_text()
    (expr,) = (
        each["expr"]
        for group in yaml.safe_load(text)["groups"]
        for each in group["rules"]
        if each.get("record") == record
    )
    selectors = re.findall(r"\{[^}]*\}", expr)
    return [
        {name for regex in re.findall(r'rule(?:=~|!~|!=|=)"([^"]*)"', each) for name in regex.split("|")}
        for each in selectors
    ]


def test_what_is_no_cause_is_what_the_catalogue_says() -> None:
    """The rule must be updated when a diagnosis gets or loses the trait `no_cause`; likewise for `intended`."""
    no_cause, intended = with_trait("no_cause"), with_trait("intended")
    first, empty, expired, informs = rules_named("kafka_rebalance:cause")
    assert first == no_cause | expired
    assert empty < no_cause
    assert expired == with_trait("unexplained") - no_cause
    assert informs < no_cause | intended
    assert [each for each in rules_named("kafka_rebalance:unexplained_storm") if each] == [intended]


def test_what_an_alert_is_about_has_a_finding() -> None:
    """For each subject of alerts a record chooses the finding in its text, and every record is used."""
    asked: set[str] = set()
    for rule in alert_rules():
        labels = re.findall(r'"about", "([a-z]+|\$1)", "(\w*)"', rule["expr"])
        assert bool(labels) == ("about" in rule["labels"]), rule["alert"]
        for word, source in labels:
            asked |= {Severity.PAGE, Severity.TICKET} if source == "severity" else {word}
    chosen = [rule for rule in all_rules() if rule.get("record") == "kafka_rebalance:primary_finding"]
    assert [rule.get("labels", {}).get("about", "") for rule in chosen] == ["", *sorted(asked, key=_place_of)]


def test_a_finding_fits_an_alert_by_its_traits() -> None:
    """The catalogue's traits decide, such as that a group waits for a member; some diagnoses are listed too."""
    fits = {
        rule["labels"]["about"]: {
            each for words in re.findall('rule=~?"([^"]*)"', rule["expr"]) for each in words.split("|")
        }
        for rule in all_rules()
        if rule.get("record") == "kafka_rebalance:primary_finding" and "labels" in rule
    }
    assert fits["wait"] == with_trait("holding") | with_trait("holds_up")
    assert fits["polls"] == with_trait("poll_limit") | {"poll_overrun_risk"}
    assert fits["emptiness"] == with_trait("death") | {"empty_group_with_lag", "join_rejected", "scale_in"}
    assert fits["heartbeats"] > with_trait("starved")


def _place_of(about: str) -> int:
    """Return where the rules choose a finding for a subject."""
    return (RULES / "kafka-rebalance.yml").read_text().index(f"labels: {{about: {about}}}")


def test_runbooks_show_what_alerts_say() -> None:
    """Every runbook has the expected text of its alert from a promtool case; `make docs` writes it."""
    reported = examples()
    assert set(reported) == set(ALERTS)
    assert [
        name for name, text in reported.items() if (page := (RUNBOOKS / f"{name}.md").read_text()) != put(page, text)
    ] == []


def test_urls_stand_at_one_place() -> None:
    """Rules contain no address: links use external labels, all of which the configuration defines and drops."""
    text = "".join(file.read_text() for file in RULE_FILES)
    assert "http" not in text
    config = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")
    labels = config["global"]["external_labels"]
    assert set(re.findall(r"\$externalLabels\.(\w+)", text)) == set(labels)
    [dropped] = [each["regex"] for each in config["alerting"]["alert_relabel_configs"]]
    assert all(re.fullmatch(dropped, label) for label in labels)


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Prometheus the tests fail, and say what to install."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="promtool is not installed: sudo apt-get install prometheus "):
        observability.find_tool("promtool")
