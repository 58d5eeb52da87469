"""The exposition formats: rendering of samples and headers, and the format that a client asks for.

Both formats render samples alike, except for exemplars, and differ in HELP and TYPE. Does not depend on groups.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from enum import Enum
from typing import Any, Generic, TypeVar

from rebalance_exporters.metrics.series import Exemplar, Metric, Samples

# Higher levels cost several times the CPU of the whole scrape and save little on text as repetitive as this; the
# smaller table of hashes stays in the processor's cache.
_GZIP_LEVEL, _GZIP_WINDOW, _GZIP_MEMORY = 1, 31, 7

# More than 128 characters of exemplar labels make the whole exposition invalid, and parsers differ in what else they
# accept.
_EXEMPLAR_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)

_BUCKET = ("le",)
#: Maximum number of cached label texts: topics, partitions and members of all groups may be many.
_REMEMBERED = 100_000
#: Maximum length of a cached label text: longer than Kafka's names other than groups'. Invented names may be longer and
#: must not fill the memory.
_REMEMBERED_LENGTH = 1_000
#: Number of last samples of a histogram that are no buckets: SUM and COUNT.
_TOTALS = 2
_S = TypeVar("_S")


class Style(Enum):
    """The served formats, with their content types."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def choose_style(accept: str | None) -> Style:
    """Return the format for an Accept header: OpenMetrics only if it is listed with at least the weight of text."""
    text, openmetrics = 0.0, 0.0
    for kind, parameters in _parse_accept(accept or ""):
        weight = _read_weight(parameters.get("q", "1"))
        if kind == "application/openmetrics-text" and parameters.get("version", "1.0.0") == "1.0.0":
            openmetrics = max(openmetrics, weight)
        elif kind == "text/plain":
            text = max(text, weight)
    return Style.OPENMETRICS if openmetrics > 0 and openmetrics >= text else Style.TEXT


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Return whether the Accept-Encoding header allows gzip."""
    weights = {
        kind: _read_weight(parameters.get("q", "1")) for kind, parameters in _parse_accept(accept_encoding or "")
    }
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def compress(body: bytes) -> bytes:
    """Return the body as gzip; equal bodies give equal bytes."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW, _GZIP_MEMORY)
    return packer.compress(body) + packer.flush()


def escape_label(value: str) -> str:
    """Return a label's value escaped, which is the same in both formats."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def render_labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return the text of labels between the braces."""
    return ",".join(f'{name}="{escape_label(value)}"' for name, value in zip(names, values, strict=True))


class _LabelSuffixes(dict[tuple[str, ...], str]):
    """Cache, by label values, of the text after the labels common to all samples of a group: few differ, all recur."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, values: tuple[str, ...]) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        rest = f",{render_labels(self._names, values)}}} "
        if len(rest) <= _REMEMBERED_LENGTH:
            self[values] = rest
        return rest


class Writer(Generic[_S]):
    """Renders one metric for one thing after another; the text that all its samples share is built once."""

    __slots__ = ("_bucket", "_is_histogram", "_labels", "_name", "_read", "_start", "_suffixes", "metric")

    def __init__(self, metric: Metric[_S]) -> None:
        self.metric = metric
        self._name = metric.full_name
        self._start, self._bucket = f"{self._name}{{", f"{self._name}_bucket{{"
        self._labels, self._read = metric.labels, metric.read
        self._is_histogram = metric.type == "histogram"
        self._suffixes = _LabelSuffixes(_BUCKET if self._is_histogram else metric.labels)

    def write(self, common: str, of: _S) -> str:
        """Return samples, one per line; `common` is the text of the labels that all of them begin with."""
        return "".join(self._write_lines(common, self._read(of)))

    def write_both(self, common: str, of: _S) -> tuple[str, str]:
        """Return samples for the text format, and for OpenMetrics with their exemplars."""
        samples = self._read(of)
        lines = self._write_lines(common, samples)
        text = "".join(lines)
        exemplars = {} if self.metric.exemplify is None else self.metric.exemplify(of)
        if not exemplars:
            return text, text
        for place, (values, _) in enumerate(samples):
            exemplar = exemplars.get(values)
            if exemplar is not None:
                lines[place] = f"{lines[place][:-1]}{render_exemplar(exemplar)}\n"
        return text, "".join(lines)

    def begin(self, common: str, values: tuple[str, ...]) -> str:
        """Return the text before the value of one sample."""
        return f"{self._start}{common}{self._suffixes[values]}"

    def _write_lines(self, common: str, samples: Samples) -> list[str]:
        start, rests = self._start + common, self._suffixes
        if self._is_histogram:
            start = self._bucket + common
            buckets = [f"{start}{rests[values]}{value}\n" for values, value in samples[:-_TOTALS]]
            totals = [f"{self._name}_{values[0]}{{{common}}} {value}\n" for values, value in samples[-_TOTALS:]]
            return buckets + totals
        if not self._labels:
            return [f"{start}}} {value}\n" for _, value in samples]
        return [f"{start}{rests[values]}{value}\n" for values, value in samples]


def render_exemplar(exemplar: Exemplar) -> str:
    """Return the text after a sample in OpenMetrics; empty if the id is not one that the stream makes."""
    if not _EXEMPLAR_ID.fullmatch(exemplar.rebalance_id):
        return ""
    return f' # {{rebalance_id="{exemplar.rebalance_id}"}} {exemplar.value} {exemplar.timestamp}'


def render_header(metric: Metric[Any], style: Style) -> bytes:
    """Return the HELP and TYPE lines of a family."""
    text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    name = metric.full_name
    if style is Style.OPENMETRICS:
        name, text = metric.family_name, text.replace('"', r"\"")
    return f"# HELP {name} {text}\n# TYPE {name} {metric.type}\n".encode()


def _parse_accept(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    for item in header.split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield kind.lower(), {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _read_weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
