"""Every error between terminal and exporter is one sentence that says what to type next."""

import re
import socket
import subprocess
import sys
import threading

import pytest

from exporters.terminal.clusters import HOSTILE
from rebalance_contract import severity_rank
from rebalance_exporters.terminal.access import Access
from rebalance_exporters.terminal.client import Api, ApiError, UnreachableError


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.1", True),
        ("LocalHost", True),
        ("localhost.", True),
        ("[::1]", True),
        ("localhost.example.com", False),
        ("localhosting", False),
        ("127.example.com", False),
        ("[::1:2]", False),
        ("10.0.0.1", False),
    ],
)
def test_only_this_machine_is_local(host, is_local):
    """Names of other machines may begin alike; they may need a proxy, and links to them work elsewhere."""
    assert Access("top", f"http://{host}:9642/x").is_local is is_local


def refused(exporter, status, body):
    """Return the sentence for a response to `explain x`."""
    exporter.answers["groups/x"] = (status, body)
    with Api(Access("explain", exporter.url)) as api, pytest.raises(ApiError) as error:
        api.group("x")
    return str(error.value).replace(exporter.url, "URL")


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (
            404,
            {"error": "no group 'x'", "did_you_mean": ["x-1", "x y"]},
            "no group 'x'; did you mean x-1, x y? Type `rebalance-monitor explain x-1`",
        ),
        (
            404,
            {"error": "no group 'x'", "did_you_mean": []},
            "no group 'x'; see all groups with `rebalance-monitor top`",
        ),
        (
            409,
            {"error": "group 'x' exists in 2 clusters", "did_you_mean": ["a", "b"]},
            "group 'x' exists in 2 clusters: add --cluster, for example --cluster a",
        ),
        (400, {"error": "limit must be a number", "did_you_mean": []}, "URL answers 400: limit must be a number"),
        (401, b"", "URL asks for a user: add --user NAME --password-file FILE"),
        (
            502,
            b"<html>",
            "URL answers 502 and not as a rebalance-monitor does: see what it is with `curl URL/`, "
            "or pass the address of a running exporter: `--url http://HOST:9642`",
        ),
        (
            200,
            {"cluster": 3},
            "URL answers /api/v1/groups/x with something else than this version expects (not a valid GroupSnapshot: "
            "Expected `str`, got `int` - at `$.cluster`): "
            "compare its version, at URL/, with `rebalance-monitor --version`",
        ),
    ],
)
def test_each_refusal_has_its_sentence(exporter, status, body, sentence):
    """With the exporter's suggestions, and the missing option."""
    assert refused(exporter, status, body) == sentence


def test_hostile_names_in_answers_do_nothing(exporter):
    """The exporter repeats the requested name, and the names of others."""
    assert refused(exporter, 404, {"error": HOSTILE, "did_you_mean": [HOSTILE]}).isprintable()


def test_names_are_quoted_for_the_shell():
    """Suggestions can be typed as they are, with the options of the previous command."""
    access = Access("explain", flags=("--url", "http://other:1"))
    assert access.suggest("explain", "a b; rm -rf") == (
        "`rebalance-monitor explain 'a b; rm -rf' --url http://other:1`"
    )


def test_typed_options_come_again_and_those_of_the_environment_do_not(monitor, exporter):
    """The environment applies to the next command too."""
    assert monitor("explain", "payments-enricher").out.endswith("advise payments-enricher --since 24h\n")
    out = monitor("explain", "payments-enricher", "--url", exporter.url, "--cluster", "prod").out
    assert out.endswith(f"advise payments-enricher --since 24h --url {exporter.url} --cluster prod\n")


@pytest.mark.parametrize("group", ["a/b", "a b", "ü", "?x=1", "#", "%2F", "a/rebalances"])
def test_every_name_reaches_the_exporter_as_it_is(exporter, group):
    """A group may have any name."""
    with Api(Access("explain", exporter.url)) as api, pytest.raises(ApiError):
        api.group(group)
    assert exporter.requests[-1].path == f"groups/{group}"


def test_an_unknown_rebalance_points_to_the_history(monitor):
    """It lists the ids."""
    outcome = monitor("explain", "payments-enricher", "--rebalance", "9-9")
    assert outcome.code == 1
    assert outcome.err == (
        "rebalance-monitor: no rebalance 9-9 of group payments-enricher is kept: see those that are, with their ids, "
        "with `rebalance-monitor history payments-enricher --since 7d`\n"
    )


@pytest.mark.parametrize("command", [["top"], ["explain", "x"], ["history", "x"], ["tail"]])
def test_nobody_there_is_one_sentence(monitor, command):
    """Exit code 1, no stack trace."""
    outcome = monitor(*command, "--url", "http://127.0.0.1:1")
    assert outcome.code == 1
    assert re.search(
        r"no answer from http://127.0.0.1:1 \(Connection refused\): start it with `rebalance-monitor export "
        r"--bootstrap-server HOST:PORT`, or pass the address of a running exporter: `--url http://HOST:9642`",
        outcome.err,
    )
    assert "Traceback" not in outcome.err


def test_one_that_does_not_answer_in_time():
    """It differs from an exporter that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Api(Access("top", url, timeout_seconds=0.05)) as api, pytest.raises(UnreachableError) as error:
            api.overview()
    assert str(error.value) == f"{url} did not answer in time: see what it waits for with `curl {url}/-/ready`"


def test_one_that_speaks_no_http():
    """Usually a wrong port."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        url = f"http://127.0.0.1:{stranger.getsockname()[1]}"

        def answer():
            connection, _ = stranger.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"SSH-2.0-hello\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        with Api(Access("top", url)) as api, pytest.raises(UnreachableError, match=r"the connection to .* broke \("):
            api.overview()
        answering.join()


def test_a_password_lets_in(monitor, exporter, tmp_path):
    """Read from the first line of a file, never from the command line."""
    exporter.password = ("ops", "s3cret")
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    assert monitor("top", "--user", "ops", "--password-file", str(file)).code == 0
    assert "asks for a user: add --user NAME --password-file FILE" in monitor("top").err
    file.write_text("other")
    assert (
        "does not take the password of user ops: compare --password-file"
        in monitor("top", "--user", "ops", "--password-file", str(file)).err
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--user", "ops"], "--user and --password-file go together: add --password-file FILE"),
        (["--password-file", "f"], "--user and --password-file go together: add --user NAME"),
        (["--user", "ops", "--password-file", "/nowhere"], "cannot read --password-file /nowhere: "),
        (["--user", "ops", "--password-file", "/dev/null"], "--password-file /dev/null is empty"),
        (["--url", "http://ops:s3cret@host"], "--url must not hold a password"),
        (["--url", "localhost:9642"], "--url localhost:9642 is no address: type it as http://127.0.0.1:9642"),
        (["--url", "\x1b[2J"], "--url \\x1b[2J is no address"),
        (["--url", "http://[::1"], "--url http://[::1 is no address"),
        (["--url", "http://localhost:99999"], "--url http://localhost:99999 is no address"),
        (["--ca-file", "/nowhere.pem"], "cannot read --ca-file /nowhere.pem as PEM certificates: "),
        (["--ca-file", "/dev/null"], "cannot read --ca-file /dev/null as PEM certificates: "),
    ],
)
def test_options_that_cannot_be_right(monitor, options, text):
    """They are reported before any request, without the password."""
    outcome = monitor("top", *options)
    assert outcome.code == 1
    assert text in outcome.err
    assert "s3cret" not in outcome.err


def test_a_proxy_does_not_lead_to_this_machine(monitor, monkeypatch):
    """Whatever proxies the environment has."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert monitor("top").code == 0


def test_a_severity_that_is_not_known_is_as_grave_as_any():
    """Of the known ones, page is more severe than ticket, and ticket than info."""
    assert severity_rank("info") < severity_rank("ticket") < severity_rank("page") == severity_rank("new")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("command", "library"),
    [("top", "httpx"), ("top", "rich"), ("top", "msgspec"), ("check", "httpx"), ("check", "msgspec")],
)
def test_a_missing_library_is_one_sentence_with_the_command(exporter, library, command):
    """The terminal's libraries are an extra."""
    code = (
        f"import sys; sys.modules['{library}'] = None; sys.argv[1:] = ['{command}', '--url', '{exporter.url}']\n"
        "from rebalance_deploy import cli; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    sentence = f"this command needs {library}, which is not installed: install the wheel with its extra `terminal`\n"
    if command == "check":
        assert (done.returncode, done.stdout, done.stderr) == (3, f"REBALANCES UNKNOWN - {sentence}", "")
    else:
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"rebalance-monitor: {sentence}")


@pytest.mark.processes
def test_help_needs_none_of_the_libraries():
    """So it is fast."""
    code = (
        "import sys; from rebalance_deploy import cli\n"
        "print(sorted({'httpx', 'rich', 'msgspec', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
