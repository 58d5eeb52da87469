"""The readers of all clusters that one exporter shows; each has its own client and thread, so none waits for another.

If the brokers of a cluster are away, what was read of it is kept, and the others continue. A silence is written to the
cluster that it is about.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from rebalance_contract import AlertSilence
from rebalance_contract.topics import SILENCES
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.kafka.consumer import Source, TopicReader
from rebalance_exporters.kafka.silence_writer import SilenceWriter
from rebalance_exporters.state.health import ReadProgress, together
from rebalance_exporters.state.view import View


class Readers:
    """A reader and a writer per cluster; the first, with an empty name, is for all clusters without their own."""

    def __init__(self, config: ExportConfig, view: View, clock_ms: Callable[[], int]) -> None:
        """Create the Kafka clients. Raises ExporterError if one refuses its properties."""
        others = frozenset(each.cluster for each in config.further_clusters)
        self._readers: dict[str, TopicReader] = {}
        self._writers: dict[str, SilenceWriter] = {}
        for name, kafka, prefix in config.each_cluster():
            self._readers[name] = TopicReader(Source(kafka, prefix, name, others), view, clock_ms)
            self._writers[name] = SilenceWriter(kafka, SILENCES.full_name(prefix))

    @property
    def progress(self) -> ReadProgress:
        """How far the readers are, together and each."""
        return together({name: reader.progress for name, reader in self._readers.items()})

    def start(self, stop: threading.Event) -> None:
        """Start to read; sets `stop` if no cluster can be read with these settings."""

        def end_if_refused() -> None:
            if self.refused is not None:
                stop.set()

        for reader in self._readers.values():
            reader.start(end_if_refused)

    @property
    def refused(self) -> str | None:
        """Why no cluster can be read with these settings; null as long as at least one may be read."""
        refusals = [each for reader in self._readers.values() if (each := reader.refusal) is not None]
        return "; ".join(refusals) if len(refusals) == len(self._readers) else None

    def stop(self) -> None:
        """Stop reading; safe to call even if it was not started."""
        for reader in self._readers.values():
            reader.begin_stop()
        for reader in self._readers.values():
            reader.stop()

    def write_silence(self, silence: AlertSilence) -> None:
        """Write a silence to the cluster that it is about. Raises ExporterError that says why it could not be."""
        self._writer_of(silence.cluster).write(silence)

    def refusal(self, cluster: str) -> str | None:
        """Return why no silence of a cluster can be written, or null if no reason is known."""
        return self._writer_of(cluster).refusal()

    def _writer_of(self, cluster: str) -> SilenceWriter:
        return self._writers.get(cluster, self._writers[""])
