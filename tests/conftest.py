"""The real broker that tests share, and the factory for those they may break."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from rebalance_deploy.broker import DEFAULT_VERSION, EmbeddedBroker

MakeBroker = Callable[..., EmbeddedBroker]

# How long an example takes says something of the machine and its load; what hangs meets the tests' time-out.
settings.register_profile("here", deadline=None)
settings.load_profile("here")


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """One running broker for the whole run: use topics and groups of your own, leave its process and log intact."""
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def make_broker() -> Iterator[MakeBroker]:
    """Start throw-away brokers: `make_broker(kafka_version=..., **{"offsets.topic.num.partitions": "4"})`.

    Keywords with a dot in their name are broker settings, the others go to EmbeddedBroker. All are closed at the end.
    """
    with ExitStack() as brokers:

        def make(*, kafka_version: str = DEFAULT_VERSION, **settings: str) -> EmbeddedBroker:
            return brokers.enter_context(EmbeddedBroker(kafka_version=kafka_version, config=settings))

        yield make
