"""The compose file and the image: all references exist, and repeated values agree."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.charting import DEPLOY, ROOT, tool
from prometheus.rig import run_tool
from rebalance_deploy import __version__, components
from rebalance_deploy.demo.workload import CONSUMERS, ConsumerSpec
from rebalance_deploy.settings import Sources
from rebalance_exporters.web.own_pages import HEALTHY_PATH

pytestmark = pytest.mark.tools

COMPOSE = DEPLOY / "compose"
CONTAINERFILE = (DEPLOY / "container" / "Containerfile").read_text()


def load(path: Path) -> Any:
    """Return a YAML file's content."""
    return yaml.safe_load(path.read_text())


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services, with inherited parts resolved."""
    found: dict[str, Any] = load(COMPOSE / "compose.yaml")["services"]
    return found


def test_compose_understands_it() -> None:
    """Every field and reference, as parsed by Docker Compose itself."""
    command = [tool("docker-compose"), "--file", str(COMPOSE / "compose.yaml"), "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_000)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["services"]) >= {"kafka", "stream", "probe", "export", "prometheus", "grafana"}


def test_its_consumers_are_the_demos(services: dict[str, Any]) -> None:
    """The same seven, one of which is sick."""
    ran = [
        ConsumerSpec(**json.loads(service["command"][2]))
        for service in services.values()
        if service.get("command", [""])[0] == "consume"
    ]
    assert ran == list(CONSUMERS)
    assert [service["command"] for service in services.values() if "produce" in service.get("command", ())]


def test_processes_take_what_they_are_given(services: dict[str, Any]) -> None:
    """Settings, ports and health checks."""
    loads = {"stream": components.stream_config, "probe": components.probe_config, "export": components.export_config}
    for name, load_config in loads.items():
        service = services[name]
        assert service["command"] == [name]
        config = load_config(Sources(environment=service["environment"]))
        assert service["ports"] == [f"127.0.0.1:{config.listen_port}:{config.listen_port}"]
        assert f"http://localhost:{config.listen_port}{HEALTHY_PATH}'" in service["healthcheck"]["test"][-1]
        assert service["image"] == f"rebalance-monitor:{__version__}"


def test_nothing_listens_beyond_the_machine(services: dict[str, Any]) -> None:
    """The demo has no passwords."""
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_what_is_mounted_is_there(services: dict[str, Any]) -> None:
    """Docker would create an empty directory for a missing path."""
    sources = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())]
    assert sources
    for source in sources:
        assert (COMPOSE / source).exists(), source


def test_prometheus_and_alertmanager_are_as_shipped() -> None:
    """Except for addresses and receivers."""
    here, shipped = load(COMPOSE / "prometheus.yml"), load(DEPLOY / "prometheus" / "prometheus.yml")
    assert here["global"].keys() == shipped["global"].keys()
    assert here["global"]["external_labels"].keys() == shipped["global"]["external_labels"].keys()
    assert here["alerting"]["alert_relabel_configs"] == shipped["alerting"]["alert_relabel_configs"]
    assert here["rule_files"] == shipped["rule_files"]

    def targets(config: Any) -> dict[str, str]:
        return {job["job_name"]: job["static_configs"][0]["targets"][0] for job in config["scrape_configs"]}

    ports = {name: address.partition(":")[2] for name, address in targets(shipped).items()}
    assert {name: address.partition(":")[2] for name, address in targets(here).items()} == ports
    pager, shipped_pager = load(COMPOSE / "alertmanager.yml"), load(DEPLOY / "alertmanager" / "alertmanager.yml")
    assert pager["inhibit_rules"] == shipped_pager["inhibit_rules"]
    assert pager["route"]["group_by"] == shipped_pager["route"]["group_by"]
    for command in (
        ("promtool", "check", "config", "--syntax-only", COMPOSE / "prometheus.yml"),
        ("amtool", "check-config", COMPOSE / "alertmanager.yml"),
    ):
        done = run_tool(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_gets_its_dashboards(services: dict[str, Any]) -> None:
    """In the directory of its provisioning."""
    provisioning = load(ROOT / "grafana" / "provisioning" / "dashboards" / "kafka-rebalance.yml")
    path = provisioning["providers"][0]["options"]["path"]
    assert f"../../grafana/dashboards:{path}:ro" in services["grafana"]["volumes"]
    datasource = load(COMPOSE / "grafana-datasource.yml")["datasources"][0]
    shipped = load(ROOT / "grafana" / "provisioning" / "datasources" / "prometheus.yml")["datasources"][0]
    assert {**datasource, "url": ""} == {**shipped, "url": ""}


def test_images_are_pinned(services: dict[str, Any]) -> None:
    """Each to a version; an image without one would change without notice."""
    images = [service["image"] for service in services.values()]
    images += re.findall(r"^ARG \w+_IMAGE=(\S+)$", CONTAINERFILE, re.MULTILINE)
    for image in images:
        assert re.search(r":v?\d+\.\d+\.\d+(-[a-z-]+)?$", image), image
    stages = set(re.findall(r"^FROM .* AS (\S+)$", CONTAINERFILE, re.MULTILINE)) | {"${PYTHON_IMAGE}", "${SPARK_IMAGE}"}
    assert set(re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)) <= stages


def test_what_the_image_copies_is_there_and_sent() -> None:
    """From the checkout, and not excluded by the ignore file."""
    ignored = (DEPLOY / "container" / "Containerfile.dockerignore").read_text().splitlines()
    sent = [ROOT / line[1:] for line in ignored if line.startswith("!")]
    copied = [
        ROOT / source
        for line in re.findall(r"^COPY (?!--from)(.*)$", CONTAINERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert copied
    for path in copied:
        assert path.exists(), path
        assert any(path == each or each in path.parents for each in sent), path
    for path in sent:
        assert path.exists(), path


def test_the_image_runs_as_nobody_in_particular() -> None:
    """Each stage that is run ends with a numeric user, the same as in the chart."""
    user = load(DEPLOY / "helm" / "rebalance-monitor" / "values.yaml")["podSecurityContext"]["runAsUser"]
    users = re.findall(r"^USER (\S+)$", CONTAINERFILE, re.MULTILINE)
    assert users == [f"{user}:{user}", "root", f"{user}:{user}"]
    assert CONTAINERFILE.rstrip().endswith("FROM monitor")
