"""The shared real broker, the factory of throw-away brokers, and restrictions on unit tests."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from markers import marker_names
from rebalance_deploy.embedded import DEFAULT_VERSION, VERSIONS
from rebalance_deploy.embedded.kafka import EmbeddedKafka

MakeBroker = Callable[..., EmbeddedKafka]

pytest_plugins = ["faults.reporting", "time_by_kind"]

#: Markers of the slowest tests, slowest first.
_LONG = ("e2e", "broker", "spark")
#: Markers of tests that may start other processes. `make unit` has none of these, and needs nothing but Python.
_STARTING = ("e2e", "broker", "spark", "tools", "processes")

# The duration of an example depends on the machine and its load; a hanging example hits the test's time-out.
# `make test` tries the same examples each time, so that it fails only for what has changed; `make test-all` new ones.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=False)
settings.register_profile("fixed", settings.get_profile("random"), derandomize=True)
settings.load_profile("fixed")

# Tests create millions of short-lived objects: collecting cycles after every 700 takes a tenth of the time.
_USUAL = gc.get_threshold()
gc.set_threshold(50_000)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude imported and collected objects, which live until the end, from garbage collection.

    Kafka clients leave sockets to the collector. These should be collected in the test that left them, not in a later
    one.
    """
    gc.freeze()
    if any(marker_names(item) & set(_LONG) for item in session.items):
        gc.set_threshold(*_USUAL)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first and keep their order, so that at the end workers wait only for short tests."""

    def rank(item: pytest.Item) -> int:
        names = marker_names(item)
        return next((i for i, name in enumerate(_LONG) if name in names), len(_LONG))

    ranks: dict[Path, int] = {}
    for item in items:
        ranks[item.path] = min(rank(item), ranks.get(item.path, len(_LONG)))
    items.sort(key=lambda item: ranks[item.path])


_may_start = True


def _refuse_processes(event: str, _: tuple[object, ...]) -> None:
    if event == "subprocess.Popen" and not _may_start:
        raise RuntimeError(f"only tests that are marked as one of {', '.join(_STARTING)} start processes")


sys.addaudithook(_refuse_processes)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Enforce the restrictions of a test's markers, before its fixtures are set up."""
    names = marker_names(item)
    fed = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if fed and not names & {"generated", "recordings"}:
        pytest.fail("what Hypothesis feeds is marked as generated or recordings: make unit is without it")
    global _may_start  # noqa: PLW0603  an audit hook has no other way to learn which test runs
    _may_start = not names.isdisjoint(_STARTING)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Allow fixtures to start processes while they end: shared ones end with the test that happens to be the last."""
    global _may_start  # noqa: PLW0603
    _may_start = True


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedKafka]:
    """One running broker for the whole run: use topics and groups of your own, leave its process and log intact."""
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture(scope="module")
def older_broker() -> Iterator[EmbeddedKafka]:
    """The same for the other version of Kafka; per file, because few files need it."""
    (version,) = set(VERSIONS) - {DEFAULT_VERSION}
    with EmbeddedKafka(kafka_version=version) as running:
        yield running


@pytest.fixture(params=VERSIONS)
def any_broker(request: pytest.FixtureRequest) -> EmbeddedKafka:
    """Each of the two shared brokers in turn."""
    found: EmbeddedKafka = request.getfixturevalue("broker" if request.param == DEFAULT_VERSION else "older_broker")
    return found


@pytest.fixture
def make_broker() -> Iterator[MakeBroker]:
    """Start throw-away brokers: `make_broker(kafka_version=..., **{"offsets.topic.num.partitions": "4"})`.

    Keywords with a dot in their name are broker settings, the others go to EmbeddedKafka. All are closed at the end.
    """
    with ExitStack() as brokers:

        def make(*, kafka_version: str = DEFAULT_VERSION, **settings: str) -> EmbeddedKafka:
            return brokers.enter_context(EmbeddedKafka(kafka_version=kafka_version, config=settings))

        yield make
