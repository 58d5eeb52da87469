"""Runs one founding incident as a demo: the incident, the monitor's findings, the fix, and the quiet period after it.

The incident and its cured form run one after the other on the same brokers with the same monitor. Events of the clients
and findings are printed as they arrive; at the end the findings are compared with the expected ones. Ctrl-C raises
KeyboardInterrupt here, because the demo waits in many places.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rebalance_contract import Finding, Rebalance
from rebalance_deploy.errors import UserError
from rebalance_deploy.logs import Say
from rebalance_deploy.monitor import Monitor, loopback_sources
from rebalance_deploy.ports import listen_problem
from rebalance_devtools.demo.acts import ACTS, Act, describe_expected
from rebalance_devtools.demo.commentary import Commentary, read_findings, read_rebalances
from rebalance_devtools.demo.narration import count, describe_change, describe_form
from rebalance_devtools.stories.judging import mistakes_of_cured, mistakes_of_sick
from rebalance_devtools.stories.play import Play, StoryRun
from rebalance_devtools.stories.record import METRICS_TOPIC
from rebalance_devtools.stories.stage import Stage, open_stage
from rebalance_devtools.stories.story import playing
from rebalance_exporters.terminal.words import describe

#: A rebalance is judged 20 s after its end; the rest is the time until its finding is on the page.
_JUDGED_SECONDS = 60.0
_QUIET_SECONDS = 25.0
_LAST_WORDS_SECONDS = 1.0
#: Exit code after Ctrl-C.
_INTERRUPTED = 130
_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryOptions:
    """Options of the demo: `letter` is a key of `ACTS`; `kafka_version` None means the story's default."""

    letter: str
    kafka_version: str | None = None
    port: int = 9642


@dataclass(frozen=True, slots=True)
class _Show:
    """State shared by the functions of this module."""

    act: Act
    stage: Stage
    monitor: Monitor
    directory: Path
    say: Say


def run(options: StoryOptions, say: Say) -> int:
    """Run the story, its fix and the quiet period; return the process's exit code.

    It is 0 only if the monitor found what was expected of the incident and nothing in the cured form; 130 if
    interrupted. Logs and data are kept unless all went well or it was interrupted. Raises UserError for a version that
    the story does not support, for a port in use, and if a process failed.
    """
    version = choose_version(options)
    check_port(options.port)
    directory = Path(tempfile.mkdtemp(prefix="rebalance-monitor-story-"))
    say(f"logs and data in {directory}, removed at the end if all goes well; Ctrl-C ends it at any time")
    try:
        code = _perform(options, version, directory, say)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except UserError as error:
        raise UserError(name_place(str(error), directory)) from error
    if code in {0, _INTERRUPTED}:
        shutil.rmtree(directory, ignore_errors=True)
    return code


def choose_version(options: StoryOptions) -> str:
    """Return the Kafka version to use. Raises UserError for one on which the story's clients do not work."""
    versions = ACTS[options.letter].story.versions
    version = options.kafka_version or versions[0]
    if version not in versions:
        raise UserError(
            f"story {options.letter} cannot play on Kafka {version}: leave --kafka-version out,"
            f" or choose {' or '.join(versions)}"
        )
    return version


def check_port(port: int) -> None:
    """Raise UserError if the port is in use; the exporter would notice only after a minute."""
    problem = listen_problem(port)
    if problem is not None:
        raise UserError(
            f"cannot listen on port {port} ({problem}): stop what uses it, or choose another with --port;"
            " 0 picks a free one"
        )


def name_place(problem: str, directory: Path) -> str:
    """Return a problem with the directory of the logs appended, unless it already names it."""
    return problem if str(directory) in problem else f"{problem}; the logs are kept in {directory}"


def _perform(options: StoryOptions, version: str, directory: Path, say: Say) -> int:
    act = ACTS[options.letter]
    story = act.story
    say(f"\n=== {story.title} ===\n{_wrap(story.what)}\n\nIt takes two to five minutes. All times are UTC.")
    with ExitStack() as stack:
        stage = stack.enter_context(
            open_stage(
                directory,
                brokers=story.brokers,
                zookeeper=story.zookeeper,
                kafka_version=version,
                config=story.broker_config,
            )
        )
        say(f"{_describe_stage(stage)}; the monitor starts, which takes half a minute")
        settings = loopback_sources(
            stage.bootstrap, directory, port=options.port, zookeeper=stage.zookeeper, environment=dict(os.environ)
        )
        monitor = stack.enter_context(Monitor(settings, directory))
        monitor.wait_until_ready(threading.Event(), lambda _: None)
        say(f"the monitor is ready: {monitor.url}/metrics, {monitor.url}/api/v1/findings")
        show = _Show(act, stage, monitor, directory, say)
        return _conclude(show, _show_sick(show), _show_cured(show))


def _describe_stage(stage: Stage) -> str:
    kafka = f"Kafka {stage.kafka_version} ({count(len(stage.broker_logs), 'broker')}) runs at {stage.bootstrap}"
    return f"{kafka}, ZooKeeper at {stage.zookeeper}" if stage.zookeeper else kafka


def _show_sick(show: _Show) -> list[str]:
    """Run the incident until the monitor has found what is expected; return what is wrong or missing after a minute."""
    show.say("\n--- 1. The incident ---")
    with _playing(show, cured=False) as (play, commentary):
        deadline = time.monotonic() + _JUDGED_SECONDS
        while mistakes := mistakes_of_sick(play.run(), show.act.expected, read_findings(show.monitor.url)):
            show.monitor.check()
            if time.monotonic() > deadline:
                break
            play.await_seconds(1)
        _end(play, commentary, show.say)
    return mistakes


def _show_cured(show: _Show) -> list[str]:
    """Run the cured form until it was quiet long enough to be judged; return what disturbed it."""
    show.say(f"\n--- 2. The fix ---\n{_wrap(show.act.fix)}")
    with _playing(show, cured=True) as (play, commentary):
        play.await_seconds(_QUIET_SECONDS)
        show.monitor.check()
        disturbances = find_disturbances(
            play.run(),
            show.act.expected.diagnosis,
            read_findings(show.monitor.url),
            read_rebalances(show.monitor.url, play.group),
        )
        _end(play, commentary, show.say)
    return disturbances


def find_disturbances(
    run: StoryRun, diagnosis: str, findings: Iterable[Finding], rebalances: Iterable[Rebalance]
) -> list[str]:
    """Return what happened to a cured group other than joins, and its findings, in sentences.

    `diagnosis` is that of the incident: it must not occur again in any group, including that of the incident. Findings
    about the incident itself that appear only now are ignored, because they began before `run`.
    """
    found = list(findings)
    renewed = [
        each
        for each in found
        if each.rule == diagnosis and each.group != run.group and each.started_at_ms >= run.started_ms
    ]
    return [
        *([f"the symptom came back {count(run.symptoms, 'time')}"] if run.symptoms else []),
        *(f"a rebalance beyond joining: {describe(each)}" for each in rebalances if each.left),
        *mistakes_of_cured(run, found),
        *(f"{diagnosis} was found again, in {each.group}: {each.summary}" for each in renewed),
    ]


def _conclude(show: _Show, mistakes: list[str], disturbances: list[str]) -> int:
    """Print the result; return the exit code."""
    show.say("\n--- 3. What came of it ---")
    explained = f"the monitor explained the incident: {describe_expected(show.act.expected)}"
    quiet = "after the fix nobody left the group, and the monitor had nothing to complain of"
    for sentence, wrong in ((explained, mistakes), (quiet, disturbances)):
        show.say(f"{'WRONG' if wrong else 'ok   '}  {sentence}")
        for each in wrong:
            show.say(f"       but {each}")
    if not mistakes and not disturbances:
        return 0
    show.say(
        f"kept in {show.directory}: stream.log, probe.log, export.log, the brokers' logs in kafka/, and what the"
        " clients reported in sick/ and cured/"
    )
    return 1


@contextmanager
def _playing(show: _Show, *, cured: bool) -> Iterator[tuple[Play, Commentary]]:
    """Run one form to its outcome with a commentary, and yield both while the clients are still running."""
    story, expected = show.act.story, show.act.expected
    group = f"{story.id.replace('_', '-')}-{'cured' if cured else 'sick'}"
    with (
        Commentary(show.monitor.url, group, {expected.diagnosis, *expected.secondary}, show.say) as commentary,
        playing(
            story,
            show.stage,
            cured=cured,
            seed=show.act.seed,
            directory=show.directory / ("cured" if cured else "sick"),
            on_event=commentary.hear,
            metrics_topic=METRICS_TOPIC,
            group=group,
            prepare=lambda play: _introduce(play, show.say),
        ) as play,
    ):
        yield play, commentary


def _introduce(play: Play, say: Say) -> None:
    """Print the clients and their settings; for a cured form only the changes."""
    if not play.cured:
        say(f"Every client of group {play.group} is {describe_form(play.form)}")
        say(f"Lines that begin with {play.group} are the monitor's, some seconds after it happened.\n")
        return
    for change in describe_change(play.story.cast(play.parameters, cured=False), play.form):
        say(f"  {change}")
    say(f"All else is as before. The group is now {play.group}.\n")


def _wrap(text: str) -> str:
    return textwrap.fill(text, _WIDTH)


def _end(play: Play, commentary: Commentary, say: Say) -> None:
    """Print the last news, then stop the clients in an orderly way without commentary."""
    play.await_seconds(_LAST_WORDS_SECONDS)
    commentary.hush()
    say("the clients are being stopped")
    for name in dict.fromkeys(event["name"] for event in play.events if event["event"] == "started"):
        play.leave(name)
