"""The simulated fleet for viewing dashboards."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rebalance_devtools import fleet
from rebalance_devtools.fleet import FleetOptions, shape_of, sick_clients


def test_the_fleet_is_as_the_pictures_say(tmp_path: Path) -> None:
    """300 calm groups committed up to the ends of their topics; in the storm also five sick ones of two clients."""
    options = FleetOptions(directory=tmp_path)
    shape = shape_of(options.calm)
    assert (shape.groups, shape.caught_up, shape.validate()) == (300, True, [])
    assert sick_clients("broker:9092", options.sick) == {}
    storm = sick_clients("broker:9092", 5)
    assert len(storm) == 11
    assert sum('"payments-enricher"' in argument for command in storm.values() for argument in command) == 2
    assert options.duration_seconds > 900


@pytest.mark.e2e
@pytest.mark.slow
def test_a_small_fleet_ends_by_itself(tmp_path: Path) -> None:
    """None of its parts exits before it does, and the data of its Prometheus are kept."""
    said: list[str] = []
    options = FleetOptions(directory=tmp_path, calm=3, sick=1, duration_seconds=10, port=0, prometheus_port=0)
    fleet.run(options, threading.Event(), said.append)
    assert "3 calm groups, 1 sick ones" in said[-2]
    assert said[-1].startswith("the history ends at")
    assert any((tmp_path / "prometheus-data").iterdir())
