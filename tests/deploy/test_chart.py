"""The Helm chart: its output agrees with Kubernetes, the settings and the generated sources."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.charting import (
    CHART,
    DEPLOY,
    EVERYTHING,
    KUBERNETES,
    ROOT,
    SPARK,
    SPLIT,
    TOOLS,
    pods,
    render,
    tool,
    try_render,
    write_schemas,
)
from rebalance_contract import QUERIES
from rebalance_deploy import __version__, components
from rebalance_deploy.settings import Sources
from rebalance_deploy.stopping import STOP_SECONDS
from rebalance_exporters.config import ExportConfig
from rebalance_exporters.prober.config import ProbeConfig
from rebalance_exporters.web.own_pages import HEALTH_PATHS
from rebalance_streaming.config import StreamConfig

pytestmark = pytest.mark.tools

PORTS = {"stream": StreamConfig().listen_port, "export": ExportConfig().listen_port, "probe": ProbeConfig().listen_port}
#: Digests of two images.
ONE, OTHER = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The chart with all features, except Spark's own executors."""
    return render(EVERYTHING, tmp_path_factory.mktemp("everything"))


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of schemas."""
    if not (TOOLS / "schemas" / "kubernetes.json").exists():
        pytest.skip("no schemas of Kubernetes are here: `make charts` gets them")
    folder = tmp_path_factory.mktemp("schemas")
    write_schemas(folder)
    return folder


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the documents of a kind."""
    return [document for document in documents if document["kind"] == kind]


def validate(schemas: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run kubeconform over documents."""
    command = [tool("kubeconform"), "-strict", "-summary"]
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command += ["-schema-location", location, "-kubernetes-version", KUBERNETES, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=1_000)


def test_the_chart_has_the_versions_of_the_package() -> None:
    """Chart and package are released together, with the rules and dashboards of the checkout."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert (CHART / "files" / "rules").resolve() == DEPLOY / "prometheus" / "rules"
    assert (CHART / "files" / "dashboards").resolve() == ROOT / "grafana" / "dashboards"


@pytest.mark.parametrize(
    ("values", "count"),
    [({}, 10), (SPLIT, 14), (EVERYTHING, 19), (SPARK, 19)],
    ids=["default", "split", "all", "spark"],
)
def test_kubernetes_takes_it(values: Mapping[str, Any], count: int, schemas: Path, tmp_path: Path) -> None:
    """Every document is valid, and has only fields known to Kubernetes, the Prometheus or the Spark Operator."""
    done = validate(schemas, "\n---\n".join(map(json.dumps, render(values, tmp_path))))
    assert done.returncode == 0, done.stdout
    assert f"{count} resources found" in done.stdout
    assert "Skipped: 0" in done.stdout


@pytest.mark.parametrize(
    ("values", "kind", "place"),
    [
        ({}, "Deployment", ("spec", "strategi")),
        ({}, "Deployment", ("spec", "template", "spec", "enableServiceLink")),
        (SPARK, "SparkApplication", ("spec", "restartPolici")),
        (SPARK, "SparkApplication", ("spec", "driver", "memoryOverHead")),
    ],
)
def test_the_check_finds_a_misspelt_field(
    values: Mapping[str, Any], kind: str, place: tuple[str, ...], schemas: Path, tmp_path: Path
) -> None:
    """The validation fails for an unknown field."""
    (*path, field) = place
    document = of_kind(render(values, tmp_path), kind)[0]
    part = document
    for name in path:
        part = part[name]
    part[field] = False
    done = validate(schemas, yaml.safe_dump(document))
    assert done.returncode == 1
    assert field in done.stdout


def test_helm_finds_nothing_to_complain_of(tmp_path: Path) -> None:
    """`helm lint`, strictly."""
    file = tmp_path / "values.json"
    file.write_text(json.dumps({"kafka": {"bootstrapServers": "broker:9092"}}))
    command = [tool("helm"), "lint", "--strict", "--kube-version", KUBERNETES, "--values", str(file), str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_000)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_dashboards_are_those_of_the_checkout(everything: list[dict[str, Any]]) -> None:
    """Rules and dashboards are unchanged; thresholds of single groups come from the values."""
    (rule,) = of_kind(everything, "PrometheusRule")
    *groups, overrides = rule["spec"]["groups"]
    files = [DEPLOY / "prometheus" / "rules" / name for name in ("kafka-rebalance.yml", "monitor.yml")]
    assert groups == [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    shipped = yaml.safe_load((DEPLOY / "prometheus" / "rules" / "overrides.yml").read_text())["groups"]
    assert [overrides["name"]] == [group["name"] for group in shipped]
    assert {path.name for path in (DEPLOY / "prometheus" / "rules").iterdir()} == {
        *(file.name for file in files),
        "overrides.yml",
    }
    shown = {
        name: text
        for each in of_kind(everything, "ConfigMap")
        if "grafana_dashboard" in each["metadata"]["labels"]
        for name, text in each["data"].items()
    }
    dashboards = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
    assert sorted(shown) == [path.name for path in dashboards]
    for path in dashboards:
        assert json.loads(shown[path.name]) == json.loads(path.read_text())


@pytest.mark.parametrize("values", [{}, SPLIT, EVERYTHING], ids=["default", "split", "all"])
def test_pods_are_restricted(values: Mapping[str, Any], tmp_path: Path) -> None:
    """The restricted Pod Security Standard, a read-only root file system, and no service links."""
    for pod in pods(render(values, tmp_path)):
        spec = pod["spec"]
        assert spec["enableServiceLinks"] is False
        assert spec["automountServiceAccountToken"] is False
        assert spec["terminationGracePeriodSeconds"] > STOP_SECONDS
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert {volume["name"] for volume in spec["volumes"]} == {mount["name"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("values", [{}, SPLIT, EVERYTHING], ids=["default", "split", "all"])
def test_processes_take_what_pods_give_them(values: Mapping[str, Any], tmp_path: Path) -> None:
    """Each container's environment and command are settings that its process accepts, on the probed port."""
    secret = tmp_path / "secret"
    secret.write_text("canary")
    loads = {"stream": components.stream_config, "export": components.export_config, "probe": components.probe_config}
    config = tmp_path / "config.toml"
    documents = render(values, tmp_path)
    (settings,) = (each for each in of_kind(documents, "ConfigMap") if "config.toml" in each["data"])
    config.write_text(settings["data"]["config.toml"])
    seen = set()
    for pod in pods(documents):
        (container,) = pod["spec"]["containers"]
        process = container["args"][0]
        seen.add(process)
        environment = {each["name"]: each["value"] for each in container["env"]}
        assert environment["REBALANCE_MONITOR_CONFIG"] == "/etc/rebalance-monitor/config/config.toml"
        for name, value in environment.items():
            if name.startswith("REBALANCE_MONITOR_KAFKA_") and name.endswith("_FILE"):
                assert Path(value).parent == Path("/etc/rebalance-monitor/kafka")
                environment[name] = str(secret)
        loaded = loads[process](Sources(file=config, environment=environment))
        assert loaded.kafka["bootstrap.servers"] == "broker:9092"
        assert loaded.listen_port == PORTS[process]
        assert container["ports"] == [{"name": "http", "containerPort": PORTS[process]}]
        if values is EVERYTHING:
            assert loaded.kafka["sasl.password"] == "canary"
            assert loaded.web_config_file == "/etc/rebalance-monitor/web/web.yml"
            assert loaded.health_without_password
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["path"] in HEALTH_PATHS
            assert asked["path"] == ("/-/ready" if probe == "readinessProbe" else "/-/healthy")
            assert asked["scheme"] == ("HTTPS" if values is EVERYTHING else "HTTP")
    assert seen == set(PORTS)


@pytest.mark.parametrize("values", [{}, SPLIT], ids=["default", "split"])
def test_every_query_runs_exactly_once(values: Mapping[str, Any], tmp_path: Path) -> None:
    """One pod each, no second one during an update, each with a claim of its own that outlives the release."""
    documents = render(values, tmp_path)
    streams = [each for each in of_kind(documents, "Deployment") if "-stream-" in each["metadata"]["name"]]
    arguments = [argument for each in streams for argument in each["spec"]["template"]["spec"]["containers"][0]["args"]]
    assert sorted(set(arguments) & set(QUERIES)) == sorted(QUERIES)
    assert len([argument for argument in arguments if argument in QUERIES]) == len(QUERIES)
    claims = {
        each["metadata"]["name"]: each["metadata"]["annotations"]
        for each in of_kind(documents, "PersistentVolumeClaim")
    }
    assert all(kept == {"helm.sh/resource-policy": "keep"} for kept in claims.values())
    used = []
    for each in streams:
        assert each["spec"]["replicas"] == 1
        assert each["spec"]["strategy"] == {"type": "Recreate"}
        pod = each["spec"]["template"]["spec"]
        used += [v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v]
    assert sorted(used) == sorted(claims)
    assert len(used) == len(streams)


@pytest.mark.parametrize("values", [{}, SPLIT, SPARK], ids=["default", "split", "spark"])
def test_a_word_for_a_rebuild_reaches_streams_alone(values: Mapping[str, Any], tmp_path: Path) -> None:
    """It is a setting of streams; it is unset by default."""
    documents = render({**values, "stream": {**values.get("stream", {}), "rebuild": "2026-11-26"}}, tmp_path)
    containers = [pod["spec"]["containers"][0] for pod in pods(documents)]
    containers += [each["spec"]["driver"] for each in of_kind(documents, "SparkApplication")]
    given = [
        each["value"]
        for container in containers
        for each in container["env"]
        if each["name"] == "REBALANCE_MONITOR_STREAM_REBUILD"
    ]
    assert given == ["2026-11-26"] * (3 if values is SPLIT else 1)
    assert "REBALANCE_MONITOR_STREAM_REBUILD" not in json.dumps(render(values, tmp_path))


def test_services_and_policies_choose_the_pods(everything: list[dict[str, Any]]) -> None:
    """Each selector matches the labels of a pod, and each ServiceMonitor those of one Service."""
    labels = [pod["metadata"]["labels"] for pod in pods(everything)]
    services = of_kind(everything, "Service")
    selectors = [each["spec"]["selector"] for each in services]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in of_kind(everything, "PodDisruptionBudget")]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in of_kind(everything, "NetworkPolicy")]
    for selector in selectors:
        assert any(selector.items() <= each.items() for each in labels), selector
    monitors = of_kind(everything, "ServiceMonitor")
    assert len(monitors) == len(services) == 3
    for monitor in monitors:
        wanted = monitor["spec"]["selector"]["matchLabels"]
        assert len([each for each in services if wanted.items() <= each["metadata"]["labels"].items()]) == 1


@pytest.mark.parametrize("servers", [[], [{"ipBlock": {"cidr": "10.0.0.1/32"}}]], ids=["everywhere", "there"])
def test_a_driver_reaches_what_makes_its_executors(servers: list[Any], tmp_path: Path) -> None:
    """Only drivers reach the API server, and driver and executors each other; without executors neither is allowed."""
    allowed = {**SPARK["networkPolicy"], "extraEgress": [], "apiServerTo": servers}
    documents = render({**SPARK, "networkPolicy": allowed}, tmp_path)
    of_all, of_drivers = (each["spec"] for each in of_kind(documents, "NetworkPolicy"))
    (application,) = of_kind(documents, "SparkApplication")
    driver, executor = (application["spec"][part]["labels"] for part in ("driver", "executor"))
    chosen = of_drivers["podSelector"]["matchLabels"]
    assert chosen.items() <= driver.items()
    others = [executor, *(pod["metadata"]["labels"] for pod in pods(documents))]
    assert not any(chosen.items() <= labels.items() for labels in others)
    (rule,) = of_drivers["egress"]
    assert [each["port"] for each in rule["ports"]] == [443, 6443]
    assert rule.get("to", []) == servers
    own = [{"podSelector": of_all["podSelector"]}]
    assert of_all["podSelector"]["matchLabels"].items() <= executor.items() & driver.items()
    assert [each for each in of_all["ingress"] if each.get("from") == own] == [{"from": own}]
    assert [each for each in of_all["egress"] if each.get("to") == own] == [{"to": own}]
    (alone,) = of_kind(render(EVERYTHING, tmp_path), "NetworkPolicy")
    assert 6443 not in [each["port"] for rule in alone["spec"]["egress"] for each in rule.get("ports", ())]


def test_jobs_have_the_names_that_alerts_look_for(everything: list[dict[str, Any]]) -> None:
    """The same job names as in the shipped configuration of Prometheus."""
    relabelled = [
        rule["replacement"]
        for monitor in of_kind(everything, "ServiceMonitor")
        for rule in monitor["spec"]["endpoints"][0]["relabelings"]
        if rule.get("targetLabel") == "job"
    ]
    shipped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert sorted(relabelled) == sorted(job["job_name"] for job in shipped)


def test_a_spark_application_runs_the_same(tmp_path: Path) -> None:
    """Entry point and jars from the image, a checkpoint that executors reach, settings as in a Deployment."""
    (application,) = of_kind(render(SPARK, tmp_path), "SparkApplication")
    spec = application["spec"]
    assert spec["arguments"] == [part for query in QUERIES for part in ("--query", query)]
    environment = {each["name"]: each["value"] for each in spec["driver"]["env"]}
    assert environment["REBALANCE_MONITOR_STREAM_CHECKPOINT"] == "hdfs:///monitor/all"
    containerfile = (DEPLOY / "container" / "Containerfile").read_text()
    script = Path(spec["mainApplicationFile"].removeprefix("local://"))
    assert f"COPY deploy/spark/{script.name} {script.parent}/" in containerfile
    assert f"REBALANCE_MONITOR_CACHE={script.parent}" in containerfile
    assert spec["sparkConf"]["spark.authenticate"] == spec["sparkConf"]["spark.network.crypto.enabled"] == "true"
    requirements = (ROOT / "requirements" / "runtime.txt").read_text()
    assert f"pyspark=={spec['sparkVersion']} " in requirements


def test_the_jars_for_a_store_are_of_the_hadoop_that_pyspark_has() -> None:
    """Jars of another Hadoop version fail at the first file."""
    jars = Path(str(metadata.distribution("pyspark").locate_file("pyspark/jars")))
    (jar,) = jars.glob("hadoop-client-api-*.jar")
    text = (DEPLOY / "spark" / "README.md").read_text()
    named = re.findall(r"hadoop-(?:client-api|aws)-([\d.]+)\.jar", text)
    assert len(named) == 2
    assert {f"hadoop-client-api-{version}.jar" for version in named} == {jar.name}


@pytest.mark.parametrize(
    ("digests", "image", "spark_image"),
    [
        ({}, f"rebalance-monitor:{__version__}", f"rebalance-monitor-spark:{__version__}"),
        ({"image": ONE}, f"rebalance-monitor@{ONE}", f"rebalance-monitor-spark:{__version__}"),
        ({"image": ONE, "spark": OTHER}, f"rebalance-monitor@{ONE}", f"rebalance-monitor-spark@{OTHER}"),
        ({"spark": OTHER}, f"rebalance-monitor:{__version__}", f"rebalance-monitor-spark@{OTHER}"),
    ],
    ids=["none", "one", "both", "that of Spark"],
)
def test_each_image_has_a_digest_of_its_own(
    digests: Mapping[str, str], image: str, spark_image: str, tmp_path: Path
) -> None:
    """No two images share a repository or a digest."""
    spark = {**SPARK["stream"]["sparkApplication"], "digest": digests.get("spark", "")}
    stream = {**SPARK["stream"], "sparkApplication": spark}
    documents = render({**SPARK, "image": {"digest": digests.get("image", "")}, "stream": stream}, tmp_path)
    (application,) = of_kind(documents, "SparkApplication")
    assert application["spec"]["image"] == spark_image
    assert {each["spec"]["containers"][0]["image"] for each in pods(documents)} == {image}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "/kafka/bootstrapServers"),
        ({"kafka": {"bootstrapServers": "broker"}}, "/kafka/bootstrapServers"),
        ({"kafka": {"bootstrapServers": "b:1", "bootstrapServer": "b:1"}}, "'bootstrapServer' not allowed"),
        ({"kafka": {"bootstrapServers": "b:1"}, "exporter": {"replica": 3}}, "'replica' not allowed"),
        ({"kafka": {"bootstrapServers": "b:1"}, "stream": {"kind": "pod"}}, "/stream/kind"),
        (
            {"kafka": {"bootstrapServers": "b:1"}, "stream": {"applications": [{"name": "x", "queries": ["member"]}]}},
            "/stream/applications/0/queries/0",
        ),
        ({"kafka": {"bootstrapServers": "b:1"}, "stream": {"kind": "sparkApplication"}}, "must be a URI"),
        ({"kafka": {"bootstrapServers": "b:1"}, "image": {"digest": "latest"}}, "/image/digest"),
        (
            {"kafka": {"bootstrapServers": "b:1"}, "stream": {"sparkApplication": {"digest": "latest"}}},
            "/stream/sparkApplication/digest",
        ),
        ({"kafka": {"bootstrapServers": "b:1"}, "prober": {"tmpSizeLimit": "500K"}}, "/prober/tmpSizeLimit"),
        ({"kafka": {"bootstrapServers": "b:1"}, "web": {"tls": True}}, "web.tls is for web.existingSecret"),
        (
            {"kafka": {"bootstrapServers": "b:1", "secretProperties": {"sasl.password": "password"}}},
            "set kafka.existingSecret or stream.kafkaSecret",
        ),
        (
            {
                "kafka": {"bootstrapServers": "b:1", "secretProperties": {"sasl.password": "password"}},
                "stream": {"kafkaSecret": "one"},
                "exporter": {"kafkaSecret": "two"},
            },
            "set kafka.existingSecret or prober.kafkaSecret",
        ),
    ],
)
def test_wrong_values_are_refused(values: Mapping[str, Any], sentence: str, tmp_path: Path) -> None:
    """An error before installation names the value."""
    done = try_render(values, tmp_path)
    assert done.returncode != 0
    assert sentence in done.stderr


@pytest.mark.parametrize("kind", ["deployment", "sparkApplication"])
@pytest.mark.parametrize(
    ("applications", "sentence"),
    [
        ({"a": ["membership"]}, "none of them has the query activity"),
        ({"a": ["membership", "diagnosis"], "b": ["activity", "diagnosis"]}, "the query diagnosis stands in two"),
        ({"a": ["membership"], "b": ["activity", "membership"]}, "the query membership stands in two"),
    ],
)
def test_applications_run_each_query_once(
    applications: Mapping[str, list[str]], sentence: str, kind: str, tmp_path: Path
) -> None:
    """Two applications with the same query would end each other; without one of them the others wait forever."""
    listed = [{"name": name, "queries": queries} for name, queries in applications.items()]
    stream = {"kind": kind, "applications": listed, "sparkApplication": {"checkpoint": "hdfs:///x"}}
    done = try_render({"kafka": {"bootstrapServers": "b:1"}, "stream": stream}, tmp_path)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_applications_have_names_of_their_own(tmp_path: Path) -> None:
    """The claim, the Deployment and the checkpoint have the same name."""
    listed = [{"name": "a", "queries": queries} for queries in (["membership"], ["activity", "diagnosis"])]
    done = try_render({"kafka": {"bootstrapServers": "b:1"}, "stream": {"applications": listed}}, tmp_path)
    assert done.returncode != 0
    assert 'two have the name "a"' in done.stderr


def test_a_process_that_is_left_out_needs_no_secret(tmp_path: Path) -> None:
    """Only the secrets of running processes are required."""
    secret = {"kafkaSecret": "s"}
    values = {"kafka": {"secretProperties": {"sasl.password": "password"}}, "stream": secret, "exporter": secret}
    assert render({**values, "prober": {"enabled": False}}, tmp_path)


@pytest.mark.parametrize("replicas", [1, 2])
def test_nodes_can_be_drained(replicas: int, tmp_path: Path) -> None:
    """One exporter may always be evicted, even if it is the only one."""
    (budget,) = of_kind(render({"exporter": {"replicas": replicas}}, tmp_path), "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    assert "minAvailable" not in budget["spec"]


@pytest.mark.parametrize(
    ("values", "scheme"),
    [
        ({}, "http"),
        ({"web": {"existingSecret": "web", "tls": True}}, "https"),
        ({"serviceMonitor": {"enabled": True, "endpoint": {"scheme": "https"}}}, "https"),
    ],
)
def test_prometheus_asks_as_pages_are_served(values: Mapping[str, Any], scheme: str, tmp_path: Path) -> None:
    """With TLS where pages have it, unless the values say otherwise, for example behind a proxy."""
    monitors = of_kind(render({"serviceMonitor": {"enabled": True}, **values}, tmp_path), "ServiceMonitor")
    assert [each["spec"]["endpoints"][0]["scheme"] for each in monitors] == 3 * [scheme]


def test_pages_are_served_where_the_values_say(tmp_path: Path) -> None:
    """Pods of an IPv6-only network accept no connections at 0.0.0.0."""
    for pod in pods(render({"listenHost": "::"}, tmp_path)):
        (container,) = pod["spec"]["containers"]
        hosts = [each["value"] for each in container["env"] if each["name"].endswith("_LISTEN_HOST")]
        assert hosts == ["::"]


def test_where_pages_are_served_may_be_in_the_settings_file(tmp_path: Path) -> None:
    """The environment overrides the file, so the chart sets no variable unless the values do."""
    for pod in pods(render({"config": '[stream]\nlisten_host = "::"'}, tmp_path)):
        (container,) = pod["spec"]["containers"]
        assert not [each for each in container["env"] if each["name"].endswith("_LISTEN_HOST")]


def test_settings_restart_pods_and_owners_do_not(tmp_path: Path) -> None:
    """Exporters reload the file of owners when it changes; other settings are read at start-up."""

    def sums(values: Mapping[str, Any]) -> dict[str, str]:
        return {
            pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod["metadata"]["annotations"]["checksum/config"]
            for pod in pods(render(values, tmp_path))
        }

    plain, owned, configured = sums({}), sums({"exporter": {"owners": "x = 1"}}), sums({"config": "[kafka]"})
    assert plain == owned
    assert {name for name in plain if plain[name] != configured[name]} == {"stream", "exporter", "prober"}


def test_what_a_pod_writes_has_a_limit(everything: list[dict[str, Any]]) -> None:
    """The disk of a node is shared."""
    for pod in pods(everything):
        (limit,) = (each["emptyDir"]["sizeLimit"] for each in pod["spec"]["volumes"] if "emptyDir" in each)
        assert limit


def test_further_secrets_and_places_are_taken(everything: list[dict[str, Any]]) -> None:
    """Unchanged, in the pods that they are configured for."""
    (exporter,) = (pod["spec"] for pod in pods(everything) if pod["spec"]["containers"][0]["name"] == "exporter")
    assert exporter["priorityClassName"] == "system-cluster-critical"
    assert exporter["topologySpreadConstraints"][0]["maxSkew"] == 1
    assert {"name": "west", "secret": {"secretName": "kafka-west"}} in exporter["volumes"]
    assert "/etc/rebalance-monitor/west" in [each["mountPath"] for each in exporter["containers"][0]["volumeMounts"]]


def test_every_value_is_in_the_schema() -> None:
    """The schema has exactly the values that have a default."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(given: dict[str, Any], described: dict[str, Any], place: str) -> None:
        assert set(given) == set(described) - {"global"}, place
        for name, part in given.items():
            if isinstance(part, dict) and "properties" in described[name]:
                compare(part, described[name]["properties"], f"{place}.{name}")

    compare(values, schema["properties"], "")


def test_every_value_is_used() -> None:
    """A value that no template uses would have no effect."""
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for section, part in values.items():
        names = part if isinstance(part, dict) and "Context" not in section else {section: None}
        for name in names:
            assert re.search(rf"\.{name}\b", templates), f"{section}.{name}"
