"""Compares the advice with recordings of the same fault played again with the advised value, and prints a table.

    PYTHONPATH=streaming:exporters:deploy:tests python -m accuracy.advice

Each pair is two recordings of one play: the fault as it was, and with one setting changed. What the advice predicts for
the first is compared with how many fewer rebalances the second has. Prints the table in docs/advice.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from accuracy.recordings import FOLDER, GOLDEN, Recording, read_recording
from rebalance_contract import Finding, Rebalance, RebalanceImpact, decode
from rebalance_contract.api_reports import EstimateRange, SettingEstimate
from rebalance_devtools.stories import advised
from rebalance_exporters.advice.absences import PastRebalance, make_past_rebalance
from rebalance_exporters.advice.estimates import Setting
from rebalance_exporters.advice.estimator import estimate
from rebalance_exporters.advice.look_back import look_back

ADVICE = GOLDEN / "advice"
#: Tolerated distance between the middle of the predicted range and the played count, as a share of the latter.
TOLERANCE = 0.2


@dataclass(frozen=True, slots=True)
class Pair:
    """Two recordings of one play and the setting in which they differ; its value is read from the parameters."""

    setting: Setting
    sick: Path
    cured: Path

    def __str__(self) -> str:
        return self.sick.name.removesuffix(".truth.json")


@dataclass(frozen=True, slots=True)
class Compared:
    """Avoided rebalances, predicted by the advice and observed; `happened` counts those of the sick play."""

    happened: int
    predicted: EstimateRange
    played: int

    @property
    def is_close(self) -> bool:
        """Whether the middle of the predicted range is within TOLERANCE of the observed number."""
        middle = (self.predicted.low + self.predicted.high) / 2
        return abs(middle - self.played) <= TOLERANCE * self.played


def _pair(setting: Setting, story: str, seed: str, *, cured: str = "", folder: Path = ADVICE) -> Pair:
    sick = folder / f"{story}-sick-{seed}.truth.json"
    beside = (ADVICE, FOLDER)
    name = f"{cured or story}-cured-{seed}.truth.json"
    return Pair(setting, sick, next((each / name for each in beside if (each / name).exists()), ADVICE / name))


PAIRS = (
    _pair(Setting.SESSION, "advised_session", "1"),
    _pair(Setting.SESSION, "advised_session", "2-4.3.1"),
    _pair(Setting.SESSION, "advised_session_partly", "3"),
    _pair(Setting.SESSION, "advised_session_partly", "4-4.3.1"),
    _pair(Setting.SESSION, "advised_session_java", "5"),
    _pair(Setting.SESSION, "advised_session_python", "5"),
    _pair(Setting.MAX_POLL_INTERVAL, "advised_poll_interval", "1"),
    _pair(Setting.MAX_POLL_INTERVAL, "advised_poll_interval", "2-4.3.1"),
    _pair(Setting.MAX_POLL_INTERVAL, "advised_poll_interval_partly", "3"),
    _pair(Setting.STATIC, "advised_names", "1"),
    _pair(Setting.STATIC, "advised_names", "2-4.3.1"),
    _pair(Setting.STATIC, "advised_names_deploy", "1"),
    _pair(Setting.STATIC, "advised_names_deploy", "2-4.3.1"),
    _pair(Setting.STATIC, "advised_names_partly", "3"),
    _pair(Setting.STATIC, "advised_names_partly", "4-4.3.1"),
    _pair(Setting.STATIC, "advised_names_deploy_java", "5"),
    _pair(Setting.STATIC, "advised_names_deploy_java_session", "5"),
    _pair(Setting.INITIAL_DELAY, "advised_initial_delay", "1", cured="advised_initial_delay_set"),
    _pair(Setting.INITIAL_DELAY, "advised_initial_delay", "2-4.3.1", cured="advised_initial_delay_set"),
    _pair(Setting.MAX_POLL_RECORDS, "long_batches", "1", folder=FOLDER),
    _pair(Setting.MAX_POLL_RECORDS, "long_batches", "2", folder=FOLDER),
    _pair(Setting.MAX_POLL_RECORDS, "long_batches", "5", folder=FOLDER),
)


@cache
def compare(pair: Pair) -> Compared:
    """Return the prediction for the sick play with the value of the cured one, beside the number actually avoided."""
    sick, cured = read_recording(pair.sick), read_recording(pair.cured)
    (found,) = [each for each in estimates(pair, {pair.setting: value_of(pair, sick)}) if each.setting == pair.setting]
    happened, left = (len(after_the_start(each)) for each in (sick, cured))
    return Compared(happened, found.avoided.rebalances, happened - left)


def estimates(pair: Pair, values: dict[Setting, int] | None = None) -> list[SettingEstimate]:
    """Return the advice on a pair's sick play; without values, for the values that it proposes itself."""
    rebalances = read_rebalances(pair.sick)
    ends = [each.rebalance.started_before_ms for each in rebalances]
    return estimate(look_back(rebalances, min(ends), max(ends) + 1), values)


def value_of(pair: Pair, sick: Recording) -> int:
    """Return the value in the cured play."""
    parameters = sick.run.parameters
    return {
        Setting.SESSION: advised.SESSION_MS,
        Setting.MAX_POLL_INTERVAL: advised.POLL_INTERVAL_MS,
        Setting.INITIAL_DELAY: advised.INITIAL_DELAY_MS,
        # Only names, unless the session time-out is changed too.
        Setting.STATIC: advised.SESSION_MS if sick.run.story.endswith("_session") else parameters["session_ms"],
        Setting.MAX_POLL_RECORDS: round(100 * parameters.get("healthy_batch", 0) / parameters.get("batch", 1)),
    }[pair.setting]


def after_the_start(recording: Recording) -> list[Rebalance]:
    """Return all rebalances except the one in which the group formed."""
    found = sorted(recording.rebalances(), key=lambda each: each.started_before_ms)
    return found[1:]


@cache
def read_rebalances(path: Path) -> list[PastRebalance]:
    """Return the rebalances of a recording as the exporter would see them, each with its cause."""
    recording = read_recording(path)
    rows = recording.watched("all").rows["rebalance_impact"]
    impacts = {each.rebalance_id: each for each in (decode(row, RebalanceImpact) for row in rows)}
    causes: dict[str, Finding] = {}
    for finding in sorted(recording.judge(), key=lambda each: each.updated_at_ms):
        if finding.primary:
            causes |= dict.fromkeys(finding.rebalance_ids, finding)
    return [
        _past_rebalance(each, impacts.get(each.rebalance_id), causes.get(each.rebalance_id))
        for each in recording.rebalances()
    ]


def _past_rebalance(rebalance: Rebalance, impact: RebalanceImpact | None, cause: Finding | None) -> PastRebalance:
    if cause is None:
        return PastRebalance(rebalance, impact)
    return make_past_rebalance(rebalance, impact, cause.rule, cause.confidence, cause.advice)


def render() -> str:
    """Return the pairs as a Markdown table, and the number of close predictions."""
    compared = {pair: compare(pair) for pair in PAIRS}
    close = sum(each.is_close for each in compared.values())
    head = (
        "| play | setting | value then | rebalances | avoided, predicted | avoided, played | within 20 % |\n"
        "|---|---|---:|---:|---:|---:|---|\n"
    )
    rows = "".join(f"| {' | '.join(_row(pair, each))} |\n" for pair, each in compared.items())
    return f"{head}{rows}\n{close} of {len(PAIRS)} are within 20 %.\n"


def _row(pair: Pair, compared: Compared) -> tuple[str, ...]:
    low, high = compared.predicted.low, compared.predicted.high
    unit = " %" if pair.setting is Setting.MAX_POLL_RECORDS else " ms"
    value = f"{value_of(pair, read_recording(pair.sick))}{unit}"
    return (
        f"`{pair}`",
        f"`{pair.setting}`",
        f"names, session {value}" if pair.setting is Setting.STATIC else value,
        str(compared.happened),
        str(low) if low == high else f"{low} to {high}",
        str(compared.played),
        "yes" if compared.is_close else "no",
    )


if __name__ == "__main__":
    print(render())  # noqa: T201 - the table is what is asked for
