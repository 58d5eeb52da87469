"""`--json` of commands that show their progress."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from rebalance_deploy import components
from rebalance_deploy.cli import cli
from rebalance_deploy.components import log_config
from rebalance_deploy.settings import Sources

#: A command with its required arguments, and the function that is called with its settings.
COMMANDS = {
    "stream": ([], "run_stream"),
    "probe": ([], "run_probe"),
    "export": ([], "run_export"),
    "record": ([], "log_json_if_asked"),
    "replay": (["-"], "log_json_if_asked"),
    "jars": ([], "log_json_if_asked"),
}


class CalledError(Exception):
    """Ends a command once its settings are known."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("given", "expected"), [((), "text"), (("--json",), "json")])
def test_the_log_is_of_objects_if_asked(
    monkeypatch: pytest.MonkeyPatch, command: str, given: tuple[str, ...], expected: str
) -> None:
    """As with `log.format = "json"`, even if the command has no other settings."""
    arguments, called = COMMANDS[command]
    seen: list[Sources] = []

    def note(sources: Sources, *_: Any, **__: Any) -> None:
        seen.append(sources)
        raise CalledError

    monkeypatch.setattr(components, called, note)
    outcome = CliRunner().invoke(cli, [command, *given, *arguments])
    assert isinstance(outcome.exception, CalledError), outcome.output
    assert log_config(seen[0]).format == expected
