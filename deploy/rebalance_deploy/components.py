"""Loads the settings of each of the monitor's processes and runs it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rebalance_contract.settings import authority
from rebalance_deploy import jars
from rebalance_deploy.errors import UserError
from rebalance_deploy.jdk import find_java
from rebalance_deploy.log_settings import LogConfig
from rebalance_deploy.logs import configure
from rebalance_deploy.settings import Sources, load
from rebalance_deploy.stopping import STOP_SECONDS, limit_stop
from rebalance_deploy.stream_progress import StreamProgress
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_kafka.checks import refused_by_librdkafka
from rebalance_kafka.clock import epoch_ms
from rebalance_streaming.config import StreamConfig
from rebalance_streaming.detect.config import DetectConfig

if TYPE_CHECKING:
    from rebalance_contract import QueryStatus
    from rebalance_streaming.recordings.record import RecordProgress

SECTIONS = {
    "stream": StreamConfig,
    "detect": DetectConfig,
    "probe": ProbeConfig,
    "export": ExportConfig,
    "log": LogConfig,
}

#: Time that stopping the stream may take in addition to waiting for the running batch.
_STREAM_STOP_SECONDS = 27.0
_C = TypeVar("_C", StreamConfig, ExportConfig, ProbeConfig)


def stream_config(sources: Sources) -> StreamConfig:
    """Return the stream's settings. Raises UserError naming everything that is wrong with them."""
    return _accepted(load(StreamConfig, "stream", sources, SECTIONS))


def detect_config(sources: Sources) -> DetectConfig:
    """Return the diagnosis's settings. Raises UserError naming everything that is wrong with them."""
    return load(DetectConfig, "detect", sources, SECTIONS)


def export_config(sources: Sources) -> ExportConfig:
    """Return the exporter's settings. Raises UserError naming everything that is wrong with them."""
    config = _accepted(load(ExportConfig, "export", sources, SECTIONS))
    problems = [
        f"export.further_clusters, {name!r}: {text}"
        for name, kafka, _ in config.each_cluster()
        if name
        for text in refused_by_librdkafka(kafka)
    ]
    if problems:
        raise UserError("; ".join(problems))
    return config


def probe_config(sources: Sources) -> ProbeConfig:
    """Return the prober's settings. Raises UserError naming everything that is wrong with them."""
    return _accepted(load(ProbeConfig, "probe", sources, SECTIONS))


def _accepted(config: _C) -> _C:
    """Return the settings if librdkafka accepts their client properties. Raises UserError with its message if not."""
    problems = refused_by_librdkafka(config.kafka)
    if problems:
        raise UserError("; ".join(problems))
    return config


def log_config(sources: Sources) -> LogConfig:
    """Return the log settings. Raises UserError naming everything that is wrong with them."""
    return load(LogConfig, "log", sources, SECTIONS)


def log_json_if_asked(sources: Sources, process: str, *, connects: bool = False) -> None:
    """Log messages and progress of a command as JSON objects if `log.format` is json.

    `connects`: the command has client properties, whose secrets must be hidden.
    """
    config = log_config(sources)
    if config.format == "json":
        configure(config, process, stream_config(sources).kafka if connects else {})


def run_stream(
    sources: Sources,
    stop: threading.Event,
    reload: threading.Event,
    *,
    rebuild: bool = False,
    may_set_aside: bool = False,
) -> None:
    """Run the Spark application in this process until `stop` is set.

    Setting `reload` reloads TLS and passwords of its pages. `rebuild` creates a new checkpoint from the published
    topics; `may_set_aside` allows it to rename an existing one.
    """
    config, detect = stream_config(sources), detect_config(sources)
    log = configure(log_config(sources), "stream", config.kafka)
    limit_stop(stop, log.warn, "stream", max(STOP_SECONDS, config.stop_timeout_seconds + _STREAM_STOP_SECONDS))
    connector: tuple[Path, ...] = ()
    # Under spark-submit the JVM is already running and the connector comes with --jars.
    if config.master:
        os.environ["JAVA_HOME"] = str(find_java().home)
        connector = (*jars.resolve("connector"), *map(Path, config.extra_jars))
    from rebalance_exporters.stream_health import StreamHealth  # noqa: PLC0415
    from rebalance_exporters.web.own_pages import Web, serving_pages  # noqa: PLC0415
    from rebalance_streaming.spark import job  # noqa: PLC0415

    health, progress = StreamHealth(), StreamProgress()

    def look(statuses: Sequence[QueryStatus]) -> None:
        health.look(statuses)
        progress.look(statuses)

    web = Web("stream", config.listen_host, config.listen_port, config.web_config_file, config.health_without_password)
    with serving_pages(web, health, health.registry, epoch_ms, reload) as url:
        log.say(f"serving on {url}/metrics")
        job.run(
            config,
            detect,
            jars=connector,
            cache=jars.cache_directory(),
            stop=stop,
            notify=log.say,
            warn=log.warn,
            on_look=look,
            on_wait=health.wait_for,
            on_read=progress.read_back,
            rebuild=rebuild,
            may_set_aside=may_set_aside,
        )


def run_export(sources: Sources, stop: threading.Event, reload: threading.Event) -> None:
    """Run the exporter in this process until `stop` is set.

    Setting `reload` reloads owners, TLS and passwords.
    """
    config = export_config(sources)
    log = configure(log_config(sources), "export", *(kafka for _, kafka, _ in config.each_cluster()))
    limit_stop(stop, log.warn, "export")
    from rebalance_exporters import server  # noqa: PLC0415
    from rebalance_exporters.web.config import load_web_config  # noqa: PLC0415

    tls = load_web_config(config.web_config_file).tls if config.web_config_file else None

    def announce(host: str, port: int) -> None:
        log.say(f"serving on {'http' if tls is None else 'https'}://{authority(host, port)}/metrics")

    server.run(config, stop=stop, reload=reload, on_listening=announce)


def run_probe(sources: Sources, stop: threading.Event, reload: threading.Event) -> None:
    """Run the prober in this process until `stop` is set.

    Setting `reload` reloads TLS and passwords of its pages.
    """
    config = probe_config(sources)
    log = configure(log_config(sources), "probe", config.kafka)
    limit_stop(stop, log.warn, "probe")
    from rebalance_exporters.prober.run import run  # noqa: PLC0415

    run(config, stop, log.say, warn=log.warn, reload=reload)


def record(
    sources: Sources,
    topics: Iterable[str],
    *,
    from_beginning: bool,
    to_end: bool,
    stop: threading.Event,
    progress: RecordProgress,
) -> Iterator[bytes]:
    """Yield the lines of a recording. Raises UserError or StreamError if it cannot be made."""
    config = stream_config(sources)
    from rebalance_streaming.recordings.record import record as run  # noqa: PLC0415

    others = dict.fromkeys((config.probes_topic, config.silences_topic, *config.foreign_topics, *topics))
    return run(
        config.kafka,
        config.source_topic,
        others,
        from_beginning=from_beginning,
        to_end=to_end,
        stop=stop,
        progress=progress,
    )
