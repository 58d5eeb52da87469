"""Names chosen by others: groups, topics, client ids, hosts, assignors, owners and ids of rebalances."""

import asyncio
import json
from functools import cache
from urllib.parse import quote

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporters.api.test_overview import FINDING
from exporters.contract_rows import (
    NOW_MS,
    diagnosis_row,
    group_row,
    impact_row,
    lag_row,
    make_view,
    probed_lag_row,
    query_row,
    rebalance_row,
    refused,
)
from prometheus.rig import run_tool
from rebalance_contract import (
    CommitGap,
    GroupTiming,
    Member,
    MemberTiming,
    TimingWindow,
    TopicLag,
    encode,
)
from rebalance_contract.api import Readiness
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.metrics.formats import Style
from rebalance_exporters.metrics.render import Exposition
from rebalance_exporters.owners import load_owners
from rebalance_exporters.server import make_app
from rebalance_exporters.state.health import ReadProgress
from rebalance_exporters.state.view import FINDINGS, GROUPS, HEARTBEATS, TOPICS, Row, View

NAMES = [
    'quotes " and more ""',
    "new\nline",
    "carriage\rreturn\r\n and\ttab",
    "back\\slash, ends in \\",
    '\\n is not a newline \\"',
    "{braces}, commas = equals #",
    "grüße-group-群组-🚀-e\u0301",
    "# HELP not_a_metric\n# TYPE not_a_metric counter",
    " spaces around ",
    "",
    "t" * 249,
    "<script>alert('x')</script>&amp;",
    "\x1b[31mred\x1b[0m\x07",
    "nul\x00byte",
    "\u2028line\u2029separators\x85\x0b\x0c\x1c",
    "\u202eright to left",
    "x\n# EOF\n",
    "%s %(name)s {0} $1",
]


def fill(name: str) -> View:
    """A view in which everything has this name."""
    timed = (MemberTiming(name, name, name, name, NOW_MS, 1.0, 0.5, poll_age_ms=2.0),)
    timing = GroupTiming("prod", name, NOW_MS, {"1m": TimingWindow(1.0, 0.5, 2.0, 0.5)}, timed)
    finding = {**json.loads(encode(FINDING)), "group": name, "summary": name, "rule": name, "severity": name}
    members = (Member(name, name, name, partitions={name: [0]}),)
    key = f"prod/{name}".encode()
    return make_view(
        group_row(group=name, protocol=name, members=members),
        diagnosis_row(),
        lag_row(None, None, group="plain"),
        rebalance_row(name[:99], group=name),
        impact_row(name[:99], group=name, silences=(CommitGap(name, 0, NOW_MS - 9, NOW_MS),)),
        probed_lag_row(9, group=name, topics={name: TopicLag([0], [5], [9], 9)}),
        Row(HEARTBEATS, key, encode(timing)),
        Row(FINDINGS, f"prod/{name}/{name}/x".encode(), json.dumps(finding).encode()),
        query_row(),
    )


def expose(name: str, style: Style) -> str:
    """The body of /metrics with everything switched on."""
    view = fill(name)
    exposition = Exposition(limit_groups=9, version="1", collect_partitions=True, collect_members=True)
    ready, loaded = Readiness(True, "ready"), ReadProgress(loaded=True)
    return exposition.render(view.fleet(), loaded, ready, NOW_MS, style).decode()


@cache
def ordinary() -> list[Metric]:
    """The output for an ordinary name."""
    return list(parse_text(expose("ordinary", Style.TEXT)))


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("name", NAMES)
def test_every_name_comes_back_from_the_parser(name: str, style: Style) -> None:
    """Each label has the unchanged name, no sample is lost and none is added."""
    families = list((parse_openmetrics if style is Style.OPENMETRICS else parse_text)(expose(name, style)))
    assert [family.name for family in families] == [family.name for family in ordinary()]
    assert [len(family.samples) for family in families[:-20]] == [len(family.samples) for family in ordinary()[:-20]]
    samples = [sample for family in families for sample in family.samples]
    for label in ("topic", "client_id", "host", "rule", "severity", "protocol"):
        found = {s.labels[label] for s in samples if label in s.labels and "monitor" not in s.name}
        assert found == {name}, label


@pytest.mark.tools
@pytest.mark.parametrize("name", NAMES)
def test_promtool_takes_every_name(name: str) -> None:
    """Prometheus's own parser and linter accept them."""
    result = run_tool("promtool", "check", "metrics", text=expose(name, Style.TEXT))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_comes_back_from_the_api(name: str) -> None:
    """All answers are JSON, with the unchanged name."""
    app = make_app(ExportConfig(), fill(name), lambda: ReadProgress(loaded=True), lambda: NOW_MS)
    group = quote(name, safe="").replace(".", "%2E")

    async def ask(path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://exporter") as client:
            return await client.get(path)

    overview = asyncio.run(ask("/api/v1/overview")).json()
    assert [row["group"] for row in overview["groups"]] == [name]
    assert [mark["summary"] for mark in overview["groups"][0]["findings"]] == [name]
    (finding,) = asyncio.run(ask(f"/api/v1/findings?rule={group}")).json()["findings"]
    assert finding["summary"] == name
    if name:  # a path cannot end in an empty part
        assert asyncio.run(ask(f"/api/v1/groups/{group}")).json()["members"][0]["client_id"] == name
        found = asyncio.run(ask(f"/api/v1/groups/{group}/rebalances")).json()["rebalances"]
        assert [(each["rebalance_id"], each["impact"]["silences"][0]["topic"]) for each in found] == [(name[:99], name)]
        advice = asyncio.run(ask(f"/api/v1/groups/{group}/advice?since_ms=0")).json()
        assert (advice["group"], advice["sums"]["rebalances"]) == (name, 1)
    assert asyncio.run(ask(f"/api/v1/groups/x{group}y")).status_code == 404


@pytest.mark.parametrize(
    "value",
    [
        b'{"cluster":"prod","group":"payments","unknown":"\xff\xfe"}',
        b'{"cluster":"prod","group":"payments","protocol":"\xff"}',
        b'{"cluster":"prod","group":"payments","protocol":"\\ud800"}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_utf8_is_left_out(value: bytes) -> None:
    """A row with unencodable text is counted as broken; it stops neither the reader nor an answer."""
    view = make_view(Row(GROUPS, b"prod/payments", value), group_row(group="after"))
    assert list(view.fleet().groups) == [("prod", "after")]
    assert refused(view)[GROUPS] == 1


def test_a_key_of_any_bytes_is_harmless() -> None:
    """Keys that are not text are rejected in every topic, with and without a value."""
    for topic in TOPICS:
        view = make_view(Row(topic, b"\xff/\xfe", None), Row(topic, b"\xff", b"{}"), group_row())
        assert list(view.fleet().groups) == [("prod", "payments")]


def test_owners_are_escaped_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Teams are entered by users with a text editor."""
    file = tmp_path_factory.mktemp("owners") / "owners.yml"
    team = 'the "A" team \\ B\n'
    file.write_text(json.dumps({"owners": [{"group": ".*", "team": team}]}))
    exposition = Exposition(limit_groups=9, version="1")
    body = exposition.render(
        make_view(group_row()).fleet(),
        ReadProgress(loaded=True),
        Readiness(True, "ready"),
        NOW_MS,
        Style.TEXT,
        owners=load_owners(str(file)),
    )
    (info,) = [f for f in parse_text(body.decode()) if f.name == "kafka_rebalance_group_info"]
    assert [sample.labels["owner"] for sample in info.samples] == [team]
