"""`rebalance-monitor replay` writes every kind of row that a replay offers."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from exporters.terminal.running import run
from rebalance_streaming.recordings.outputs import OUTPUTS
from rebalance_streaming.recordings.replay import ReplayProgress, replay

RECORDING = Path(__file__).parents[1] / "golden" / "stories" / "member_crash-1.jsonl.gz"


@pytest.mark.recordings
@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_can_be_asked_for(capsys: pytest.CaptureFixture[str], output: str) -> None:
    """The command accepts each output, and writes rows of its kinds only."""
    outcome = run(capsys, "replay", str(RECORDING), "--output", output)
    assert outcome.code == 0, outcome.err
    assert {json.loads(line)["kind"] for line in outcome.out.splitlines()} == set(OUTPUTS[output])


@pytest.mark.recordings
@pytest.mark.parametrize("output", ["rebalances", "all"])
def test_the_progress_of_a_replay_ends_where_it_was_to_end(output: str) -> None:
    """All lines are read before anything is judged, and the final count equals the announced total."""
    progress, lines = ReplayProgress(), gzip.decompress(RECORDING.read_bytes()).splitlines(keepends=True)
    for row in replay([lines], output=output, progress=progress):
        assert (progress.to_judge is None) == (json.loads(row)["kind"] == "commits")
    assert progress.lines == len(lines)
    assert progress.judged == progress.to_judge
    assert progress.judged > 0


def test_help_names_every_output(capsys: pytest.CaptureFixture[str]) -> None:
    """The help lists all outputs, and nothing else."""
    outcome = run(capsys, "replay", "--help")
    offered = "".join(outcome.out.split()).partition("--output[")[2].partition("]")[0]
    assert offered.split("|") == list(OUTPUTS)


def test_another_output_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The error lists the available ones."""
    outcome = run(capsys, "replay", str(RECORDING), "--output", "everything")
    assert outcome.code == 2
    assert "timing" in outcome.err


LOGS = Path(__file__).parents[1] / "golden" / "broker-logs"


@pytest.mark.recordings
def test_a_brokers_log_beside_the_recording_is_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    """Several logs may be given; findings name them as their source."""
    log = str(LOGS / "broker-4.3.1.log.gz")
    words = ("replay", str(LOGS / "broker-4.3.1.jsonl.gz"), "--output", "findings", "--logs", log, "--logs", log)
    outcome = run(capsys, *words)
    assert outcome.code == 0, outcome.err
    sources = {each["source"] for line in outcome.out.splitlines() for each in json.loads(line)["evidence"]}
    assert "broker_log" in sources


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--logs", str(RECORDING), str(RECORDING)), 1, "is a recording, not a broker's log"),
        (("--logs", __file__, str(RECORDING)), 1, "lines like this are expected"),
        (("--time-zone", "Mars", str(RECORDING)), 1, "'Mars' is no time zone"),
        (("--logs", __file__), 2, "--logs goes with a recording"),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_one_sentence(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    """Before anything is replayed."""
    outcome = run(capsys, "replay", *words)
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err.replace("\n", " ")


@pytest.mark.processes
def test_the_command_line_starts_without_what_a_replay_needs() -> None:
    """Help and completion import neither numpy nor the replay."""
    program = (
        "import sys, rebalance_deploy.cli; print({'numpy', 'rebalance_streaming.recordings.replay'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
