"""Commands and environments that start the clients of plays, for each library."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rebalance_deploy import jars
from rebalance_deploy.jdk import find_java
from rebalance_devtools.clients import client_environment
from rebalance_devtools.stories import apps, foreign
from rebalance_devtools.stories.script import (
    AIOKAFKA,
    CONFLUENT,
    CONNECT,
    FRANZ_GO,
    JAVA,
    KAFKAJS,
    SARAMA,
    SHARE,
    SPRING,
    STREAMS,
    ClientSpec,
)
from rebalance_devtools.stories.stage import Stage

_PROGRAMS = Path(__file__).parent / "programs"
_JAVA_OPTIONS = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_CONNECT_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_PACKAGE = "rebalance_devtools.stories.programs"


@dataclass(frozen=True, slots=True)
class ClientStart:
    """A client to start. `bootstrap` may be an address of the stage's network (`through_network`).

    `rest_port` is the REST port of a Connect worker, `metrics_topic` the topic to which clients report; None if unused.
    """

    name: str
    form: ClientSpec
    group: str
    topic: str
    stage: Stage
    directory: Path
    bootstrap: str
    through_network: bool
    client_id: str
    metrics_topic: str | None
    rest_port: int | None = None

    def command(self) -> tuple[list[str | Path], dict[str, str]]:
        """Return the command that starts the client, and its additional environment variables."""
        in_java = {
            JAVA: self._java_command,
            SPRING: self._spring_command,
            SHARE: self._share_command,
            STREAMS: self._streams_command,
            CONNECT: self._connect_command,
        }
        if (command := in_java.get(self.form.library)) is not None:
            return command(), {}
        if self.form.library in (FRANZ_GO, SARAMA, KAFKAJS):
            return self._foreign_command()
        module = _module_of(self.form.library)
        path = client_environment(self.form.library) if self.form.library[-1].isdigit() else None
        text = json.dumps(self._python_spec(module))
        # The pinned client takes precedence over the PYTHONPATH of this process.
        found = [str(path), *filter(None, [os.environ.get("PYTHONPATH")])]
        more = {"PYTHONPATH": os.pathsep.join(found)} if path else {}
        return [sys.executable, "-m", f"{_PACKAGE}.{module}", text], more

    def _foreign_command(self) -> tuple[list[str | Path], dict[str, str]]:
        settings = {
            "name": self.name,
            "bootstrap": self.bootstrap,
            "group": self.group,
            "topic": self.topic,
            **({"client_id": self.client_id} if self.through_network else {}),
            **self.form.settings,
            **self.form.program,
        }
        if self.form.library == KAFKAJS:
            program, modules = foreign.node_program()
            return [foreign.find_tool("node"), program, json.dumps(settings)], {"NODE_PATH": str(modules)}
        return [foreign.go_program(), json.dumps({"library": self.form.library, **settings})], {}

    def _java_command(self) -> list[str | Path]:
        return self._consumer_command("StoryClient.java", jars.classpath(f"broker-{self.stage.kafka_version}"))

    def _spring_command(self) -> list[str | Path]:
        return self._consumer_command("SpringClient.java", apps.classpath("spring"))

    def _consumer_command(self, program: str, classpath: str) -> list[str | Path]:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "client.id": self.client_id,
            "auto.offset.reset": "earliest",
            **self.form.settings,
            **{f"program.{key}": value for key, value in self.form.program.items()},
        }
        head: list[str | Path] = [find_java().executable, *_JAVA_OPTIONS, "-cp", classpath, _PROGRAMS / program]
        return [*head, self.name, self.topic, *(f"{key}={value}" for key, value in settings.items())]

    def _share_command(self) -> list[str | Path]:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "client.id": self.client_id,
            **self.form.settings,
        }
        program = _PROGRAMS / "ShareClient.java"
        classpath = jars.classpath(f"broker-{self.stage.kafka_version}")
        java: list[str | Path] = [find_java().executable, *_JAVA_OPTIONS, "-cp", classpath, program]
        return [*java, self.name, self.topic, *(f"{key}={value}" for key, value in settings.items())]

    def _streams_command(self) -> list[str | Path]:
        settings = {
            "bootstrap.servers": self.stage.bootstrap,
            "application.id": self.group,
            "client.id": self.name,
            "state.dir": self.directory / f"{self.name}.state",
            **self.form.settings,
            **{f"program.{key}": value for key, value in self.form.program.items()},
        }
        program = _PROGRAMS / "StreamsApp.java"
        java: list[str | Path] = [find_java().executable, *_JAVA_OPTIONS, "-cp", apps.classpath("streams"), program]
        return [*java, self.name, self.topic, *(f"{key}={value}" for key, value in settings.items())]

    def _connect_command(self) -> list[str | Path]:
        converter = "org.apache.kafka.connect.storage.StringConverter"
        settings = {
            "bootstrap.servers": self.stage.bootstrap,
            "group.id": self.group,
            "client.id": self.name,
            "key.converter": converter,
            "value.converter": converter,
            **{f"{what}.storage.topic": f"{self.topic}-{what}" for what in ("config", "offset", "status")},
            **{f"{what}.storage.replication.factor": 1 for what in ("config", "offset", "status")},
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "listeners": f"http://127.0.0.1:{self.rest_port}",
            **self.form.settings,
        }
        file = self.directory / f"{self.name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        return [find_java().executable, *_CONNECT_OPTIONS, "-cp", apps.classpath("connect"), main, file]

    def _python_spec(self, module: str) -> dict[str, Any]:
        common = {"name": self.name, **self.form.program}
        if module == "consume_pykafka":
            settings = {"zookeeper_connect": self.stage.zookeeper, **self.form.settings}
            return {
                **common,
                "bootstrap": self.stage.bootstrap,
                "group": self.group,
                "topic": self.topic,
                "settings": settings,
            }
        if module == "consume_confluent":
            known = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "client.id": self.client_id}
            settings = {**known, "auto.offset.reset": "earliest", **self.form.settings}
            return {"topics": [self.topic], **common, "settings": settings, "metrics_topic": self.metrics_topic}
        known = {"bootstrap_servers": self.bootstrap, "group_id": self.group, "auto_offset_reset": "earliest"}
        settings = {**known, "client_id": self.client_id, **self.form.settings}
        if module == "consume_aiokafka":
            return {**common, "topic": self.topic, "settings": settings}
        return {**common, "topic": self.topic, "settings": settings, "metrics_topic": self.metrics_topic}


def _module_of(library: str) -> str:
    if library.startswith("pykafka"):
        return "consume_pykafka"
    if library == AIOKAFKA:
        return "consume_aiokafka"
    return "consume_confluent" if library == CONFLUENT else "consume_kafka_python"
