"""Shell completion, including group names, which never shows errors."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from exporters.terminal.clusters import CALM_ROW, HOSTILE, OVERVIEW

#: The program with a longer time-out than for a user: the exporter is a thread of a busy process.
PROGRAM = """
from rebalance_deploy.cli import cli
from rebalance_exporters.terminal import completion
completion._TIMEOUT_SECONDS = 600
cli(prog_name='rebalance-monitor')
"""


def complete(line, url, *options):
    """Return click's suggestions for bash for the last word of a line."""
    environment = os.environ | {
        "_REBALANCE_MONITOR_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - (not line.endswith(" "))),
        "REBALANCE_MONITOR_URL": url,
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [each.partition(",")[2] for each in done.stdout.splitlines() if each]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rebalance-monitor explain pay", ["payments-enricher"]),
        ("rebalance-monitor check billing le", ["ledger"]),
        ("rebalance-monitor history ", ["billing", "ledger", "new", "payments-enricher"]),
        ("rebalance-monitor tail --group n", ["new"]),
        ("rebalance-monitor exp", ["explain", "export"]),
    ],
)
def test_group_names_are_offered(exporter, line, offered):
    """From the exporter in the environment."""
    assert complete(line, exporter.url) == offered


@pytest.mark.processes
def test_the_typed_exporter_is_asked(exporter):
    """An option on the line takes precedence over the environment."""
    assert complete(f"rebalance-monitor explain --url {exporter.url} bil", "http://127.0.0.1:1") == ["billing"]


@pytest.mark.processes
def test_names_that_a_shell_interprets_are_left_out(exporter):
    """Shells insert completions without quoting, so a client could have commands run; some would print them as well."""
    names = (HOSTILE, "billing;touch${IFS}/tmp/x;", "$(id)", "`id`", "a b", "bill*", "~root", "--url=http://elsewhere")
    rows = tuple(replace(CALM_ROW, group=name) for name in names)
    exporter.answers["overview"] = replace(OVERVIEW, groups=(*rows, CALM_ROW))
    assert complete("rebalance-monitor explain ", exporter.url) == ["billing"]


@pytest.mark.processes
def test_trouble_is_quiet():
    """A shell has no place for errors during completion."""
    assert complete("rebalance-monitor explain pay", "http://127.0.0.1:1") == []
    assert complete("rebalance-monitor explain pay", "nonsense") == []


@pytest.mark.processes
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_this_program(monitor, shell):
    """For each shell; bash accepts its syntax."""
    outcome = monitor("completion", shell)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"_REBALANCE_MONITOR_COMPLETE={shell}_complete" in outcome.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=outcome.out, text=True, check=True)
