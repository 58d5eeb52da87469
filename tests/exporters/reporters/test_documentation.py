"""The examples in docs/client-metrics.md agree with the programs."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import tomllib
from pathlib import Path

import pytest

from rebalance_exporters.reporters import confluent, kafka_python
from rebalance_exporters.reporters.outbox import CAPACITY
from rebalance_exporters.reporters.payload import compose_native
from rebalance_exporters.reporters.reporter import CLOSE_SECONDS, DEFAULT_INTERVAL_SECONDS, DEFAULT_TOPIC, DueReport
from rebalance_streaming.wire.metrics.formats import FORMATS, decode_metrics

TEXT = (Path(__file__).parents[3] / "docs" / "client-metrics.md").read_text()
TICK = DueReport(seq=0, emitted_ms=1, interval_ms=5000, late_ms=0, dropped=0, closing=False)


def blocks(language: str) -> list[str]:
    """Return the text of all code blocks of a language, including those within lists."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", TEXT, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(text) for _, text in found]


def test_every_example_record_is_understood():
    """Each in its own format: every text format has an example, in JSON or in a block named after the format."""
    examples = [text for language in ("json", *FORMATS) for text in blocks(language)]
    formats = [report.format for text in examples for report in decode_metrics(text.encode(), 1)]
    assert sorted(formats) == sorted(set(FORMATS) - {"otlp_proto"})


def test_the_native_example_has_the_fields_of_a_report():
    """Exactly the fields that the reporters write."""
    (example,) = (json.loads(text) for text in blocks("json") if '"schema"' in text)
    report = compose_native(TICK, example["client"], example["app"], example["metrics"])
    assert example.keys() == report.keys()
    assert example["process"].keys() == report["process"].keys()
    config = kafka_python.read_config({})
    assert example["client"]["config"].keys() == config.keys() >= confluent.read_config({}).keys()


@pytest.mark.parametrize("text", blocks("python"))
def test_every_python_example_is_python(text):
    """Its imports from the reporters exist."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rebalance_exporters"):
            module = {"kafka_python": kafka_python, "confluent": confluent}[(node.module or "").rpartition(".")[2]]
            assert all(hasattr(module, each.name) for each in node.names)


def test_the_telegraf_configuration_is_whole():
    """It is valid TOML, and writes what the monitor accepts."""
    (text,) = blocks("toml")
    config = tomllib.loads(text)
    assert config["outputs"]["kafka"][0]["data_format"] == "json"
    beans = [each["mbean"] for each in config["inputs"]["jolokia2_agent"][0]["metric"]]
    assert len({bean.split("type=")[1].split(",")[0] for bean in beans}) == 3


def test_the_numbers_are_those_of_the_programs():
    """Topic, interval, retention during an outage, and the time limit of a close."""
    for said in (
        f"`{DEFAULT_TOPIC}`",
        f"default of {DEFAULT_INTERVAL_SECONDS:g} s",
        f"newest {CAPACITY} reports",
        f"at most {CLOSE_SECONDS:g} s longer",
    ):
        assert said in TEXT
