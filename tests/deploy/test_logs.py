"""The log output of processes: its format, and that it contains no secrets."""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import subprocess
import sys
import threading
import urllib.request
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rebalance_deploy import components, logs
from rebalance_deploy.errors import UserError
from rebalance_deploy.log_settings import FORMATS, LogConfig
from rebalance_deploy.logs import configure, hide_secrets, report_failure, secrets_of
from rebalance_deploy.settings import Sources
from rebalance_exporters import server
from waiting import wait_for

CANARY = "canary-Xy7pQ2"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@dataclass
class Printed:
    """The output on standard error so far."""

    capture: pytest.CaptureFixture[str]
    text: str = ""

    def getvalue(self) -> str:
        """Return all of it."""
        self.text += self.capture.readouterr().err
        return self.text


@pytest.fixture
def printed(own_logging: None, capsys: pytest.CaptureFixture[str]) -> Printed:
    """The output from here on; the logging configuration is restored afterwards."""
    return Printed(capsys)


def test_a_line_of_text_has_time_level_and_process(printed: Printed) -> None:
    """The monitor's messages, which may name the process themselves, and the records of its libraries."""
    log = configure(LogConfig(), "stream", {})
    log.say("stream: caught up")
    log.warn("the activity query ended")
    logging.getLogger("rebalance_exporters.state.view").warning("a row\nof two lines")
    logging.getLogger("py4j").info("nobody needs this")
    lines = printed.getvalue().splitlines()
    assert len(lines) == 3
    for line, rest in zip(
        lines,
        (
            r"INFO stream: caught up",
            r"WARNING stream: the activity query ended",
            r"WARNING stream \(rebalance_exporters\.state\.view\): a row of two lines",
        ),
        strict=True,
    ):
        assert re.fullmatch(f"{TIME} {rest}", line), line


@pytest.mark.parametrize("form", FORMATS)
def test_names_of_strangers_are_shown_and_not_obeyed(form: str, printed: Printed) -> None:
    """A group name may contain codes that clear the screen, reverse the text direction or hide the rest of a line."""
    log = configure(LogConfig(format=form), "probe", {})
    name = "gr\u00fcn \x1b[2J\x9b1m\x7f \u202e\u2028"
    log.warn(f"group {name} may not be described")
    try:
        raise ValueError(name)
    except ValueError:
        logging.getLogger("rebalance").exception("a row was left out")
    text = printed.getvalue()
    assert all(line.isprintable() for line in text.split("\n"))
    if form == "json":
        assert json.loads(text.splitlines()[0])["message"] == f"group {name} may not be described"
    else:
        assert "group gr\u00fcn \\x1b[2J\\x9b1m\\x7f \\u202e  may not be described" in text
        assert "\nValueError: gr\u00fcn" in text


def test_json_is_an_object_per_line(printed: Printed) -> None:
    """Including tracebacks and Python warnings."""
    log = configure(LogConfig(format="json"), "export", {})
    log.say("export: serving on ü")
    try:
        raise ValueError("x\ny")
    except ValueError:
        logging.getLogger("rebalance_exporters.kafka.consumer").exception("the reader\nstopped")
    sys.excepthook(KeyError, KeyError("k"), None)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    said, failed, uncaught, warned = map(json.loads, printed.getvalue().splitlines())
    assert said.pop("time")
    assert said == {"level": "info", "process": "export", "logger": "rebalance", "message": "serving on ü"}
    assert (failed["level"], failed["message"]) == ("error", "the reader\nstopped")
    assert "ValueError: x\ny" in failed["trace"]
    assert (uncaught["level"], uncaught["message"]) == ("critical", "KeyError")
    assert (warned["level"], warned["logger"]) == ("warning", "py.warnings")


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_is_the_least_that_is_printed(level: str, count: int, printed: Printed) -> None:
    """This applies to the monitor's own loggers."""
    configure(LogConfig(level=level), "probe", {})
    logger = logging.getLogger("spark")
    for each in (logger.debug, logger.info, logger.warning, logger.error):
        each("x")
    assert len(printed.getvalue().splitlines()) == count


def test_a_failure_is_an_object_where_json_is_read(printed: Printed) -> None:
    """Otherwise it is one sentence for the user, which the command line prints."""
    configure(LogConfig(), "probe", {})
    assert not report_failure(UserError("no"))
    assert printed.getvalue() == ""
    configure(LogConfig(format="json"), "probe", {})
    assert report_failure(UserError("no"))
    assert json.loads(printed.getvalue())["message"] == "no"


@pytest.mark.parametrize("form", FORMATS)
def test_secrets_are_replaced_wherever_they_would_be_printed(form: str, printed: Printed) -> None:
    """In messages, in tracebacks, and each line of a multi-line key."""
    kafka = {
        "sasl.password": CANARY,
        "ssl.key.pem": f"-----BEGIN PRIVATE KEY-----\n{CANARY}2\n-----END PRIVATE KEY-----",
        "java.sasl.jaas.config": f'x required password="{CANARY}3";',
        "sasl.username": "monitor",
    }
    log = configure(LogConfig(format=form), "stream", kafka)
    log.warn(f"login with {CANARY} of monitor failed: {kafka['java.sasl.jaas.config']}")
    try:
        raise ValueError(f"{CANARY}2")
    except ValueError:
        logging.getLogger("rebalance").exception("broken")
    text = printed.getvalue()
    assert "canary" not in text
    assert text.count("(hidden)") >= 3
    assert "of monitor failed" in text
    assert hide_secrets(f"x {CANARY}") == "x (hidden)"


@pytest.fixture
def two_clusters(tmp_path: Path) -> Callable[[str], Sources]:
    """Makes settings of an exporter with a second cluster, whose client has these additional properties."""

    def make(properties: str) -> Sources:
        file = tmp_path / "m.toml"
        file.write_text(
            f"""
[kafka]
"bootstrap.servers" = "127.0.0.1:1"
"sasl.password" = "{CANARY}-own"
"sasl.username" = "monitor"
"sasl.mechanism" = "PLAIN"
"security.protocol" = "SASL_PLAINTEXT"
[[export.further_clusters]]
cluster = "west"
[export.further_clusters.kafka]
"bootstrap.servers" = "127.0.0.1:2"
"sasl.username" = "monitor"
"sasl.mechanism" = "PLAIN"
"sasl.password" = "{CANARY}-west"
{properties}
"""
        )
        return Sources(file)

    return make


def test_secrets_of_further_clusters_are_replaced_too(
    two_clusters: Callable[[str], Sources], printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exporter has client properties per cluster, each with its own secrets."""
    monkeypatch.setattr(components, "limit_stop", lambda *_: None)
    monkeypatch.setattr(server, "run", lambda *_, **__: logging.getLogger("rebalance").warning("%s-west", CANARY))
    components.run_export(two_clusters(""), threading.Event(), threading.Event())
    assert "WARNING export: (hidden)" in printed.getvalue()
    assert hide_secrets(f"{CANARY}-own, {CANARY}-west") == "(hidden), (hidden)"


def test_properties_of_further_clusters_are_tried(two_clusters: Callable[[str], Sources]) -> None:
    """Properties rejected by librdkafka are reported before the start, with the cluster's name but no secrets."""
    with pytest.raises(UserError, match=r"^export\.further_clusters, 'west': .*socket\.timeout\.ms") as error:
        components.export_config(two_clusters('"socket.timeout.ms" = "soon"'))
    assert CANARY not in str(error.value)


def test_a_short_secret_hides_no_ordinary_text() -> None:
    """Otherwise an empty or very short secret would make every line unreadable."""
    assert secrets_of({"sasl.password": "", "bootstrap.servers": "b:1"}) == [""]
    assert logs._Lines("x", ["", "abc", "abcd"]).hide("abcabcd") == "abc(hidden)"


@pytest.mark.parametrize(("given", "named"), [({"format": "xml"}, "log.format"), ({"level": "loud"}, "log.level")])
def test_wrong_settings_are_named(given: Mapping[str, str], named: str) -> None:
    """The error lists the allowed values."""
    (problem,) = LogConfig(**given).validate()
    assert problem.startswith(named)


WRONG: dict[str, dict[str, str]] = {
    "unknown mechanism": {"SASL_MECHANISM": "X", "SASL_PASSWORD": CANARY, "SECURITY_PROTOCOL": "SASL_SSL"},
    "no user": {"SASL_MECHANISM": "PLAIN", "SASL_PASSWORD": CANARY, "SECURITY_PROTOCOL": "SASL_SSL"},
    "key that is none": {"SSL_KEY_PEM": CANARY, "SSL_CERTIFICATE_PEM": CANARY, "SECURITY_PROTOCOL": "SSL"},
    "token settings": {
        "SASL_MECHANISM": "OAUTHBEARER",
        "SASL_OAUTHBEARER_CONFIG": CANARY,
        "SECURITY_PROTOCOL": "SASL_SSL",
    },
    "client secret": {
        "SASL_MECHANISM": "OAUTHBEARER",
        "SASL_OAUTHBEARER_METHOD": "oidc",
        "SASL_OAUTHBEARER_CLIENT_SECRET": CANARY,
        "SECURITY_PROTOCOL": "SASL_SSL",
    },
    "jaas": {"JAVA_SASL_JAAS_CONFIG": f'x required password="{CANARY}";', "SASL_JAAS_CONFIG": CANARY},
    "unknown property": {"SASL_PASSWORT": "x", "SASL_PASSWORD": CANARY},
    "bad number": {"SASL_PASSWORD": CANARY, "SOCKET_TIMEOUT_MS": "soon"},
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("process", ["stream", "probe", "export"])
def test_no_sentence_about_settings_holds_a_secret(process: str, case: str) -> None:
    """Regardless of what else is wrong with them."""
    load = {"stream": components.stream_config, "probe": components.probe_config, "export": components.export_config}
    names = {"BOOTSTRAP_SERVERS": "127.0.0.1:1", **WRONG[case]}
    environment = {f"REBALANCE_MONITOR_KAFKA_{name}": value for name, value in names.items()}
    with pytest.raises(UserError) as error:
        load[process](Sources(environment=environment))
    assert CANARY not in str(error.value)
    assert CANARY not in str(error.value.__cause__)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.toml", f'[kafka]\n"sasl.password" = "{CANARY}\n'),
        ("m.toml", f'[kafka]\n"sasl.password" = {CANARY}\n'),
        ("m.toml", f'[kafka]\n"sasl.password" = "{CANARY}"\n"sasl.password" = "{CANARY}"\n'),
        ("web.yml", f"basic_auth_users:\n  a: {CANARY}\n  b: [{CANARY}\n"),
        ("web.yml", f"basic_auth_users:\n  a: {CANARY}\n"),
        ("web.yml", f"basic_auth_users: {{a: {CANARY}}}: {CANARY}\n"),
        ("web.yml", f"basic_auth_users:\n  a: '{CANARY}'\n  a: '{CANARY}'\n"),
        ("web.yml", f"basic_auth_users:\n\ta: {CANARY}\n"),
    ],
)
def test_no_sentence_about_a_file_quotes_it(name: str, text: str, tmp_path: Path) -> None:
    """A syntax error near a password must not print the password."""
    from rebalance_deploy.settings import _read_file  # noqa: PLC0415
    from rebalance_exporters.errors import ExporterError  # noqa: PLC0415
    from rebalance_exporters.web.config import load_web_config  # noqa: PLC0415

    file = tmp_path / name
    file.write_text(text)
    read: Any = _read_file if name == "m.toml" else lambda path: load_web_config(str(path))
    with pytest.raises((UserError, ExporterError)) as error:
        read(file)
    assert CANARY not in str(error.value)


def test_a_secret_in_a_flag_is_not_repeated() -> None:
    """The flag is also rejected."""
    for key in ("kafka.sasl.password", "kafka.SASL.PASSWORD", "kafka.java.sasl.jaas.config"):
        with pytest.raises(UserError) as error:
            components.export_config(Sources(flags=(f"{key}={CANARY}",)))
        assert CANARY not in str(error.value)


@pytest.mark.processes
@pytest.mark.parametrize(("process", "form"), [("stream", "json"), ("probe", "text"), ("export", "json")])
def test_a_process_without_brokers_keeps_its_secrets(process: str, form: str, tmp_path: Path) -> None:
    """No output, page or process list contains them; with `json` every line is an object."""
    web = tmp_path / "web.yml"
    web.write_text("")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("REBALANCE_MONITOR_")},
        "REBALANCE_MONITOR_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "REBALANCE_MONITOR_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "REBALANCE_MONITOR_KAFKA_SASL_MECHANISM": "PLAIN",
        "REBALANCE_MONITOR_KAFKA_SASL_USERNAME": "monitor",
        "REBALANCE_MONITOR_KAFKA_SASL_PASSWORD": CANARY,
        f"REBALANCE_MONITOR_{process.upper()}_WEB_CONFIG_FILE": str(web),
        "REBALANCE_MONITOR_LOG_FORMAT": form,
        "REBALANCE_MONITOR_LOG_LEVEL": "debug",
    }
    command = [sys.executable, "-m", "rebalance_deploy", process, "--set", f"{process}.listen_port=0"]
    command += ["--set", f"{process}.listen_host=127.0.0.1"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        lines, shown, url = [], "", ""
        for line in running.stderr:
            lines.append(line)
            shown += Path(f"/proc/{running.pid}/cmdline").read_text(errors="replace")
            found = re.search(r"serving on (http://\S+)/metrics", line)
            url = url if found is None else found[1]
            if "no Kafka broker answers at 127.0.0.1:1" in line:
                break
        # The exporter may have failed before it serves.
        while not url and (line := running.stderr.readline()):
            lines.append(line)
            found = re.search(r"serving on (http://\S+)/metrics", line)
            url = "" if found is None else found[1]
        ready = wait_for(lambda: _page(f"{url}/-/ready"), "the readiness page")
        shown += ready + _page(f"{url}/metrics") + _page(f"{url}/-/healthy")
        running.terminate()
        out, rest = running.communicate(timeout=600)
        assert running.returncode == 0, rest
    assert "no Kafka broker answers at 127.0.0.1:1" in ready
    assert CANARY not in "".join(lines) + out + rest + shown
    if form == "json":
        assert all(json.loads(line)["process"] == process for line in (*lines, *rest.splitlines()))


def _page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        # Not ready: the response has the reason.
        return error.read().decode() if isinstance(error, urllib.error.HTTPError) else ""
