"""The chart rendered by helm, and the schemas that kubeconform validates the result with."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalance_deploy.jars import cache_directory

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "rebalance-monitor"
#: Built by `.ci/go-tools`.
TOOLS = cache_directory() / "tools"
#: The chart's resources of built-in Kubernetes kinds.
KINDS = (
    "ConfigMap",
    "Deployment",
    "Ingress",
    "NetworkPolicy",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "Service",
    "ServiceAccount",
)
#: The Kubernetes version of the schemas.
KUBERNETES = "1.37.2"

#: Values that no default of the chart sets; every template renders something with these.
EVERYTHING: Mapping[str, Any] = {
    "kafka": {"existingSecret": "kafka", "secretProperties": {"sasl.username": "user", "sasl.password": "password"}},
    "config": '[kafka]\n"security.protocol" = "SASL_SSL"\n"sasl.mechanism" = "PLAIN"\n',
    "web": {"existingSecret": "web", "tls": True},
    "exporter": {
        "ingress": {"enabled": True, "host": "monitor.example.com", "tlsSecret": "tls"},
        "owners": "x = 1",
        "priorityClassName": "system-cluster-critical",
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "extraVolumes": [{"name": "west", "secret": {"secretName": "kafka-west"}}],
        "extraVolumeMounts": [{"name": "west", "mountPath": "/etc/rebalance-monitor/west", "readOnly": True}],
    },
    "serviceAccount": {"annotations": {"example.com/role": "monitor"}},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "endpoint": {"scrapeTimeout": "10s"}},
    "prometheusRule": {"enabled": True, "overrides": [{"record": "kafka_rebalance:override:empty_lag", "expr": "1"}]},
    "dashboards": {"enabled": True},
    "networkPolicy": {"enabled": True, "ingressFrom": [{"namespaceSelector": {}}], "extraEgress": [{}]},
    "imagePullSecrets": [{"name": "registry"}],
}
SPLIT: Mapping[str, Any] = {
    "stream": {"applications": [{"name": name, "queries": [name]} for name in ("membership", "activity", "diagnosis")]}
}
SPARK: Mapping[str, Any] = {
    **EVERYTHING,
    "stream": {"kind": "sparkApplication", "sparkApplication": {"checkpoint": "hdfs:///monitor/"}},
}


def tool(name: str) -> str:
    """Return the path of a program that `make charts` builds; skip the test if it has not been built."""
    built = TOOLS / "bin" / name
    found = str(built) if built.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here: `make charts` builds it")
    return found


def try_render(values: Mapping[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run helm on the chart with these values."""
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    command = [tool("helm"), "template", "test", str(CHART), "--namespace", "ns", "--kube-version", KUBERNETES]
    return subprocess.run([*command, "--values", str(file)], capture_output=True, text=True, check=False, timeout=1_000)


_rendered: dict[str, str] = {}


def render(values: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Return the resources rendered from values, for brokers at broker:9092."""
    key = json.dumps(values)
    if key not in _rendered:
        _rendered[key] = _render(values, folder)
    return [document for document in yaml.load_all(_rendered[key], yaml.CSafeLoader) if document]


def _render(values: Mapping[str, Any], folder: Path) -> str:
    kafka = {"bootstrapServers": "broker:9092", **values.get("kafka", {})}
    done = try_render({**values, "kafka": kafka}, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pods(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the pod templates."""
    return (each["spec"]["template"] for each in documents if each["kind"] == "Deployment")


def write_schemas(folder: Path) -> None:
    """Write a schema per kind in kubeconform's layout, from those published by Kubernetes and the two operators."""
    definitions = json.loads((TOOLS / "schemas" / "kubernetes.json").read_text())["definitions"]
    strict = {name: _strict(definition) for name, definition in definitions.items()}
    for name, definition in strict.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            if kind["kind"] not in KINDS:
                continue
            file = "-".join((kind["kind"], *filter(None, (kind["group"].partition(".")[0], kind["version"]))))
            reachable = {each: strict[each] for each in _reachable(strict, name)}
            schema = {"$ref": f"#/definitions/{name}", "definitions": reachable}
            (folder / f"{file.lower()}.json").write_text(json.dumps(schema))
    for path in (TOOLS / "schemas").glob("*.yaml"):
        resource = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]
        (version,) = (each for each in resource["versions"] if each["storage"])
        schema = _strict(version["schema"]["openAPIV3Schema"])
        file = f"{resource['names']['kind']}-{resource['group'].partition('.')[0]}-{version['name']}"
        (folder / f"{file.lower()}.json").write_text(json.dumps(schema))


def _strict(schema: Any) -> Any:
    """Return a schema that rejects unknown fields, in plain JSON schema."""
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    changed = dict(schema)
    for key in ("items", "additionalProperties"):
        if key in schema:
            changed[key] = _strict(schema[key])
    if "properties" in schema:
        changed["properties"] = {name: _strict(each) for name, each in schema["properties"].items()}
        if "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            changed["additionalProperties"] = False
    if schema.get("description", "").startswith("Quantity is a fixed-point"):
        changed["type"] = ["string", "number"]
    return changed


def _reachable(definitions: Mapping[str, Any], name: str) -> set[str]:
    found, open_names = set(), [name]
    while open_names:
        each = open_names.pop()
        if each not in found:
            found.add(each)
            open_names += re.findall(r'"#/definitions/([^"]+)"', json.dumps(definitions[each]))
    return found
